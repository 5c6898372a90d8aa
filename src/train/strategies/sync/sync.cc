#include "train/strategies/sync/sync.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/clip.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/registry.h"
#include "convoy/train/training_loss.h"
#include "train/setup.h"
#include "train/strategies/devices/options.h"
#include "train/strategies/devices/replicas.h"
#include "train/strategies/devices/table.h"
#include "train/strategies/local_buffers.h"
#include "train/strategies/reducer_keys.h"
#include "train/strategies/shares.h"
#include "train/strategies/sync/noise_meter.h"
#include "train/strategies/tally.h"
#include "train/strategies/updates.h"

namespace convoy::train {
namespace {

class Sync final : public Strategy {
 public:
  // `inside`: it is a part of another strategy, which changes the weights itself.
  explicit Sync(bool inside = false) : inside_(inside) {}

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return model::parameter_count(*network_); }
  TensorList forward(const TensorList& inputs) override {
    return table_ ? table_->forward(inputs) : network_->run(inputs);
  }
  std::size_t least_share(TrainerContext& context) override;
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override;
  Communicated communicated() override { return {{}, reducer().statistics(), 0}; }
  State state() override;
  void with_whole_model(const std::function<void()>& use) override;

 private:
  parallel::DistributedOptions options(const State* saved) const;
  Sharers sharers() const;
  void check_devices() const;
  parallel::GradientReducer& reducer() { return table_ ? table_->reducer() : model_->reducer(); }
  const parallel::NormalizationSeconds& normalization_seconds() const {
    return table_ ? table_->normalization_seconds() : model_->normalization_seconds();
  }
  StepReport step(const data::Batch& batch);
  bool compute(const data::Batch& batch, StepReport& report);
  bool compute_on_devices(const data::Batch& batch, StepReport& report);
  std::vector<SharePart> parts_of(const data::Batch& batch, data::Range share) const;
  void forward_and_backward(const data::Batch& batch, const std::vector<SharePart>& parts,
                            StepReport& report);
  void start_tally(double loss, double weight, std::size_t samples);
  void tell_of_noise(const StepReport& report);

  const bool inside_;
  TrainerContext* context_ = nullptr;
  std::int64_t devices_ = 1;  // of each rank
  int ranks_of_host_ = 1;
  std::shared_ptr<model::Network> network_;
  std::vector<std::shared_ptr<model::Network>> more_replicas_;  // of the devices after the first
  std::vector<double> auxiliary_;                               // its Blueprint::auxiliary
  // The one for a single device, the other for several.
  std::optional<parallel::DistributedModel<model::Network>> model_;
  std::unique_ptr<DeviceTable> table_;
  std::optional<NamedOptimizer> optimizer_;
  std::vector<parallel::NamedTensor> parameters_;
  std::vector<at::Tensor> tensors_;  // the same
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  bool synchronized_ = false;        // batch norm
  LocalBuffers buffers_;
  std::size_t least_share_ = 1;
  LeftOut left_out_;  // of shares with fewer
  Tally tally_;
  NoiseMeter noise_;
  bool noise_told_ = false;
  Phases phases_;
  std::optional<ReducerRows> rows_;  // in their timeline
};

parallel::DistributedOptions Sync::options(const State* saved) const {
  const Recipe& recipe = context_->recipe();
  parallel::DistributedOptions distributed = distributed_options(recipe);
  distributed.allow_unused = recipe.strategy_options.flag("allow_unused");
  // A resumed run has to add up gradients as this one does, see ReducerOptions::order.
  distributed.nominal_samples =
      static_cast<double>(recipe.training.batch) /
      static_cast<double>(context_->world().size() * devices_ * recipe.training.accumulate);
  if (saved != nullptr) {
    const auto order = saved->lists.find("sync.gradient_order");
    if (order != saved->lists.end()) distributed.order = order_that_fits(order->second, *network_);
  }
  return distributed;
}

Arrangement Sync::arrange(const comm::World& world, const Recipe& recipe) {
  parallel::GridShape::of(recipe.grid.replicas, 1, world.size(), /*divides=*/false);
  devices_ = devices_of(recipe).devices;
  ranks_of_host_ = world.local_size();
  return {.share = world.rank(), .shares = world.size(), .group = {}};
}

void Sync::build(const NetworkSource& source) {
  network_ = source.whole();
  auxiliary_.clear();
  if (const model::Blueprint* data = network_->blueprint()) auxiliary_ = data->auxiliary;
  more_replicas_.clear();
  if (devices_ == 1 || inside_ || !source.trains()) return;
  check_replicas_fit(*network_, source.recipe(), ranks_of_host_);
  for (std::int64_t device = 1; device < devices_; ++device)
    more_replicas_.push_back(source.whole());
}

std::size_t Sync::least_share(TrainerContext& context) {
  const Recipe& recipe = context.recipe();
  if (!synchronized_statistics(recipe) || context.world().size() * devices_ == 1)
    least_share_ = least_samples(*network_, context.task(), context.compute());
  return least_share_;
}

// Who gets even shares of a batch.
Sharers Sync::sharers() const {
  Sharers all = all_ranks(*context_);
  if (devices_ == 1) return all;
  all.count *= static_cast<std::size_t>(devices_);
  all.name = "device";
  return all;
}

void Sync::check_devices() const {
  if (devices_ == 1) return;
  const Recipe& recipe = context_->recipe();
  if (inside_) {
    throw UsageError("sync.devices is " + std::to_string(devices_) +
                     "; the ranks of a replica around a parameter server drive one device each: 1");
  }
  const std::int64_t ranks = context_->world().size();
  if (ranks * devices_ > recipe.training.batch) {
    throw UsageError(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " of " +
                     std::to_string(devices_) + " devices (sync.devices) are more devices than a " +
                     "batch has samples (training.batch is " +
                     std::to_string(recipe.training.batch) + "): some would have none");
  }
  check_draws_nothing(*network_, context_->task(), context_->compute(), recipe.model.name);
}

void Sync::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  const Recipe& recipe = context.recipe();
  synchronized_ = synchronized_statistics(recipe);
  check_devices();
  if (synchronized_) check_synchronized_shares(context, sharers());
  check_least_share(context, least_share_, all_ranks(context));
  const comm::Communicator& all = context.world().communicator();
  communicator_ = context.recipe().strategy_options.flag("reproducible")
                      ? all.with_reproducible(true)
                      : all.duplicate();
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  if (devices_ == 1) {
    model_.emplace(context.world(), network_, options(saved));
    buffers_ = LocalBuffers(communicator_, parallel::unique_buffers(*network_));
  } else {
    std::vector<std::shared_ptr<model::Network>> replicas{network_};
    replicas.insert(replicas.end(), more_replicas_.begin(), more_replicas_.end());
    table_ = std::make_unique<DeviceTable>(context, replicas, auxiliary_, options(saved));
    buffers_ = LocalBuffers(communicator_, table_->buffers());
  }
  parameters_ = parallel::unique_parameters(*network_);
  tensors_ = tensors_of(parameters_);
  optimizer_.emplace(context.make_optimizer(parameters_));
  noise_ = NoiseMeter(communicator_, parameters_, recipe.training.noise_every);
  if (saved == nullptr) return;
  optimizer_->load(*saved);
  buffers_.load(saved->rank);
}

void Sync::start_tally(double loss, double weight, std::size_t samples) {
  tally_.start({loss, weight, samples,
                context_->samples().statistics().skipped + left_out_.samples(),
                context_->requests()});
}

// Those that count nothing are left out: a mean over them would be no number.
std::vector<SharePart> Sync::parts_of(const data::Batch& batch, data::Range share) const {
  if (share.size() < least_share_) return {};
  const Recipe& recipe = context_->recipe();
  const int used = std::clamp(static_cast<int>(share.size() / least_share_), 1,
                              static_cast<int>(recipe.training.accumulate));
  std::vector<SharePart> parts;
  for (int part = 0; part < used; ++part) {
    const data::Range rows = data::even_share(share, part, used);
    const double weight = weight_of(*context_, batch, rows);
    if (weight > 0) {
      parts.push_back({rows, weight});
    } else if (synchronized_ && communicator_.size() * devices_ > 1) {
      throw UsageError("sync.batch_norm is synchronized, so every " + std::string(sharers().name) +
                       " takes part in every micro-batch; the task " + recipe.task.name +
                       " says that one of them counts nothing, with sample " +
                       std::to_string(batch.samples[rows.begin]) +
                       ": set sync.batch_norm = \"local\"");
    }
  }
  return parts;
}

void Sync::forward_and_backward(const data::Batch& batch, const std::vector<SharePart>& parts,
                                StepReport& report) {
  const Recipe& recipe = context_->recipe();
  const Task& task = context_->task();
  const auto accumulate = static_cast<std::size_t>(recipe.training.accumulate);
  double all = 0, loss_sum = 0;
  for (const SharePart& part : parts) all += part.weight;
  for (const SharePart& part : parts) {
    auto start = Clock::now();
    const TaskBatch rows = task.tensors(batch, part.rows, context_->compute());
    torch::Tensor loss;
    {
      const model::RandomScope scope(static_cast<std::uint64_t>(recipe.seed),
                                     static_cast<std::uint64_t>(context_->moment().step),
                                     rows.samples);
      const Autocast autocast = context_->compute().autocast();
      const TensorList outputs = model_->run(part.weight, all, [&](model::Network& network) {
        return network.run(task.inputs(rows));
      });
      loss = training_loss(task, auxiliary_, outputs, rows);
    }
    loss_sum += loss.item<double>() * part.weight;
    if (accumulate > 1) loss = loss * (part.weight / all);
    report.forward_s += phases_.end_of("forward", start);
    start = Clock::now();
    if (&part != &parts.back()) {
      const auto quiet = model_->no_sync();
      loss.backward();
      if (&part == &parts.front()) noise_.first_part(part.weight, all);
    } else {
      // A rank's weight is its samples per micro-batch: all ranks count the same number of those.
      for (std::size_t rest = parts.size(); rest < accumulate; ++rest)
        model_->reducer().count_samples(0);
      start_tally(loss_sum, all, batch.size());
      loss.backward();
    }
    report.backward_s += phases_.end_of("backward", start);
  }
}

// False: no rank has a sample that counts.
bool Sync::compute(const data::Batch& batch, StepReport& report) {
  const std::vector<SharePart> parts = parts_of(batch, {0, batch.size()});
  if (batch.size() < least_share_) {
    left_out_.add(*context_, batch);
    start_tally(0, 0, 0);
    return reducer().join_with_zeros();
  }
  if (parts.empty()) {
    start_tally(0, 0, batch.size());
    return reducer().join_with_zeros();
  }
  forward_and_backward(batch, parts, report);
  return true;
}

// Does so with as many of the devices as there are samples for.
bool Sync::compute_on_devices(const data::Batch& batch, StepReport& report) {
  const bool enough = batch.size() >= least_share_;
  if (!enough) left_out_.add(*context_, batch);
  std::vector<DeviceShare> shares(static_cast<std::size_t>(devices_));
  const int used =
      std::clamp(static_cast<int>(batch.size() / least_share_), 1, static_cast<int>(devices_));
  double all = 0;
  for (int device = 0; device < used && enough; ++device) {
    DeviceShare& share = shares[static_cast<std::size_t>(device)];
    share.parts = parts_of(batch, data::even_share({0, batch.size()}, device, used));
    all += share.weight();
  }
  if (!(all > 0)) {
    start_tally(0, 0, enough ? batch.size() : 0);
    return reducer().join_with_zeros();
  }
  const auto start = Clock::now();
  table_->compute(
      {.batch = batch,
       .shares = shares,
       .use_loss = [&](double loss) { start_tally(loss, all, batch.size()); },
       .use_first_part = [this](double part, double total) { noise_.first_part(part, total); },
       .timeline = phases_.timeline()},
      report);
  phases_.end_of("devices", start);
  return true;
}

StepReport Sync::step(const data::Batch& batch) {
  const Recipe& recipe = context_->recipe();
  StepReport report;
  report.learning_rate = context_->schedule().at(context_->moment());
  optimizer_->set_learning_rate(report.learning_rate);
  seed_generator(*context_);
  const double exposed = reducer().statistics().exposed_seconds;
  const parallel::NormalizationSeconds normalized = normalization_seconds();
  optimizer_->zero_grad();
  noise_.begin(context_->moment().step);
  const bool update = table_ ? compute_on_devices(batch, report) : compute(batch, report);
  const double in_forward = normalization_seconds().forward - normalized.forward;
  const double in_backward = normalization_seconds().backward - normalized.backward +
                             reducer().statistics().exposed_seconds - exposed;
  report.communication_s = in_forward + in_backward;
  report.forward_s = std::max(0.0, report.forward_s - in_forward);
  report.backward_s = std::max(0.0, report.backward_s - in_backward);
  const auto start = Clock::now();
  if (update) {
    noise_.whole_batch();
    if (may_update(report, parallel::clip_grad_norm(tensors_, recipe.training.clip_norm),
                   parameters_))
      optimizer_->step();
  }
  report.update_s = phases_.end_of("update", start);
  tally_.finish(report);
  report.noise = noise_.finish(report.weight);
  tell_of_noise(report);
  return report;
}

// Where the first update that is to be measured can't be, others can't either, but for the rest of
// an epoch: whoever asked for the noise would wait for it in vain.
void Sync::tell_of_noise(const StepReport& report) {
  if (noise_told_ || !noise_.due() || !(report.weight > 0)) return;
  noise_told_ = true;
  if (report.noise || communicator_.rank() != 0) return;
  context_->world().log().warning(
      "training.noise_every: update " + std::to_string(context_->moment().step + 1) +
      " says nothing of the gradient's noise, since no rank's share of its batch can be cut into "
      "two micro-batches that count, of " +
      std::to_string(least_share_) +
      (least_share_ == 1 ? " sample" : " samples, with which the model can be trained,") +
      " at least; set a larger training.batch");
}

void Sync::run() {
  make_updates(
      *context_, tally_, phases_,
      [this](Timeline* timeline) {
        rows_.reset();
        if (timeline != nullptr) rows_.emplace(*timeline, reducer());
      },
      [this](const data::Batch& batch) { return step(batch); });
}

State Sync::state() {
  State state;
  describe_module(*network_, state);
  optimizer_->save(state);
  // Before the first update it is not the one that is measured then.
  if (context_->moment().step > 0) {
    std::vector<std::string>& order = state.lists["sync.gradient_order"];
    for (const auto& bucket : reducer().buckets())
      order.insert(order.end(), bucket.begin(), bucket.end());
  }
  state.rank = buffers_.own();
  return state;
}

void Sync::with_whole_model(const std::function<void()>& use) { buffers_.with_united(use); }

std::vector<Option> keys() {
  std::vector<Option> keys = reducer_keys();
  keys.push_back({"allow_unused", false, "parameters may get no gradient in a step"});
  for (Option& key : device_keys()) keys.push_back(std::move(key));
  return keys;
}

void check_recipe(const Recipe& recipe, std::vector<std::string>& problems) {
  check_reducer_keys(recipe, problems);
  check_device_keys(recipe, problems);
  if (recipe.grid.partitions > 1) {
    problems.push_back("grid.partitions is " + std::to_string(recipe.grid.partitions) +
                       "; with sync every rank holds the whole model: 1");
  }
}

}  // namespace

void add_sync(Registry& registry) {
  registry.add_strategy(
      "sync", [] { return std::make_unique<Sync>(); }, keys(), check_recipe);
}

std::unique_ptr<Strategy> make_sync() { return std::make_unique<Sync>(/*inside=*/true); }

}  // namespace convoy::train
