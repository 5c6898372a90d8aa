#include "train/strategies/sync/sync.h"

#include <optional>
#include <sstream>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/units.h"
#include "convoy/model/factory.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/registry.h"
#include "train/setup.h"
#include "train/strategies/local_buffers.h"
#include "train/strategies/shares.h"
#include "train/strategies/tally.h"

namespace convoy::train {
namespace {

class Sync final : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return model::parameter_count(*network_); }
  TensorList forward(const TensorList& inputs) override { return network_->run(inputs); }
  std::size_t least_share(TrainerContext& context) override;
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override;
  State state() override;
  void with_whole_model(const std::function<void()>& use) override;

 private:
  parallel::DistributedOptions distributed_options(const State* saved) const;
  StepReport step(const data::Batch& batch);
  // A part of a share that counts something.
  struct Part {
    data::Range rows;
    double weight = 0;
  };
  std::vector<Part> parts_of(const data::Batch& batch) const;
  void forward_and_backward(const data::Batch& batch, const std::vector<Part>& parts,
                            StepReport& report);
  void join_without_samples(const data::Batch& batch);
  void start_tally(double loss, double weight, std::size_t samples);
  void follow(Timeline* timeline);
  double end_of(const char* phase, Clock::time_point start);

  TrainerContext* context_ = nullptr;
  std::shared_ptr<model::Network> network_;
  std::optional<parallel::DistributedModel<model::Network>> model_;
  std::optional<NamedOptimizer> optimizer_;
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  bool synchronized_ = false;        // batch norm
  LocalBuffers buffers_;
  std::size_t least_share_ = 1;
  std::uint64_t unused_ = 0;  // samples of shares that were left with fewer
  Tally tally_;
  Timeline* timeline_ = nullptr;     // while steps are recorded
  std::optional<ReducerRows> rows_;  // in it
};

parallel::DistributedOptions Sync::distributed_options(const State* saved) const {
  const Recipe& recipe = context_->recipe();
  const Options& options = recipe.strategy_options;
  parallel::DistributedOptions distributed;
  distributed.bucket_bytes = parse_bytes(options.text("bucket"));
  distributed.first_bucket_bytes = parse_bytes(options.text("first_bucket"));
  distributed.allow_unused = options.flag("allow_unused");
  distributed.allreduce = options.text("allreduce");
  distributed.reproducible = options.flag("reproducible");
  const std::string& wire = options.text("wire");
  if (wire == "bfloat16") distributed.wire_type = at::kBFloat16;
  if (synchronized_) distributed.batch_norm = parallel::BatchNormStatistics::synchronized;
  // A resumed run has to add up gradients as this one does, see ReducerOptions::order.
  distributed.nominal_samples =
      static_cast<double>(recipe.training.batch) /
      static_cast<double>(context_->world().size() * recipe.training.accumulate);
  if (saved != nullptr) {
    const auto order = saved->lists.find("sync.gradient_order");
    if (order != saved->lists.end()) distributed.order = order->second;
  }
  return distributed;
}

Arrangement Sync::arrange(const comm::World& world, const Recipe& recipe) {
  parallel::GridShape::of(recipe.grid.replicas, 1, world.size());
  return {.share = world.rank(), .shares = world.size(), .group = {}};
}

void Sync::build(const NetworkSource& source) { network_ = source.whole(); }

std::size_t Sync::least_share(TrainerContext& context) {
  const Recipe& recipe = context.recipe();
  const bool local = recipe.strategy_options.text("batch_norm") != "synchronized";
  if (local || context.world().size() == 1)
    least_share_ = least_samples(*network_, context.task(), context.compute());
  return least_share_;
}

void Sync::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  const Recipe& recipe = context.recipe();
  synchronized_ = recipe.strategy_options.text("batch_norm") == "synchronized";
  if (synchronized_) check_synchronized_shares(context);
  check_least_share(context, least_share_);
  const comm::Communicator& all = context.world().communicator();
  communicator_ = context.recipe().strategy_options.flag("reproducible")
                      ? all.with_reproducible(true)
                      : all.duplicate();
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  model_.emplace(context.world(), network_, distributed_options(saved));
  optimizer_.emplace(context.make_optimizer(parallel::unique_parameters(*network_)));
  buffers_ = LocalBuffers(communicator_, parallel::unique_buffers(*network_), synchronized_);
  if (saved == nullptr) return;
  optimizer_->load(*saved);
  buffers_.load(saved->rank);
}

void Sync::start_tally(double loss, double weight, std::size_t samples) {
  tally_.start({loss, weight, samples, context_->samples().statistics().skipped + unused_,
                context_->requests()});
}

// Those that count nothing are left out: a mean over them would be no number.
std::vector<Sync::Part> Sync::parts_of(const data::Batch& batch) const {
  if (batch.size() < least_share_) return {};
  const Recipe& recipe = context_->recipe();
  const int used = std::clamp(static_cast<int>(batch.size() / least_share_), 1,
                              static_cast<int>(recipe.training.accumulate));
  std::vector<Part> parts;
  for (int part = 0; part < used; ++part) {
    const data::Range rows = data::even_share({0, batch.size()}, part, used);
    const double weight = context_->task().weight(batch, rows);
    if (!parallel::GradientReducer::can_count(weight)) {
      std::ostringstream text;
      text << "the task " << recipe.task.name << " counts " << weight
           << "; that has to be 0, or from " << parallel::GradientReducer::kLeastSamples << " to "
           << parallel::GradientReducer::kMostSamples;
      throw UsageError(text.str());
    }
    if (weight > 0) {
      parts.push_back({rows, weight});
    } else if (synchronized_ && communicator_.size() > 1) {
      throw UsageError(
          "sync.batch_norm is synchronized, so every rank takes part in every "
          "micro-batch; the task " +
          recipe.task.name + " says that one of them counts nothing, with sample " +
          std::to_string(batch.samples[rows.begin]) + ": set sync.batch_norm = \"local\"");
    }
  }
  return parts;
}

void Sync::forward_and_backward(const data::Batch& batch, const std::vector<Part>& parts,
                                StepReport& report) {
  const Recipe& recipe = context_->recipe();
  const Task& task = context_->task();
  const auto accumulate = static_cast<std::size_t>(recipe.training.accumulate);
  double all = 0, loss_sum = 0;
  for (const Part& part : parts) all += part.weight;
  for (const Part& part : parts) {
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
      loss = task.loss(outputs, rows);
    }
    loss_sum += loss.item<double>() * part.weight;
    if (accumulate > 1) loss = loss * (part.weight / all);
    report.forward_s += end_of("forward", start);
    start = Clock::now();
    if (&part != &parts.back()) {
      const auto quiet = model_->no_sync();
      loss.backward();
    } else {
      // A rank's weight is its samples per micro-batch: all ranks count the same number of those.
      for (std::size_t rest = parts.size(); rest < accumulate; ++rest)
        model_->reducer().count_samples(0);
      start_tally(loss_sum, all, batch.size());
      loss.backward();
    }
    report.backward_s += end_of("backward", start);
  }
}

// For a share without samples, or with too few of them since others were bad.
void Sync::join_without_samples(const data::Batch& batch) {
  for (const std::size_t sample : batch.samples) {
    if (unused_++ > 0) continue;
    context_->world().log().warning(
        "sample " + std::to_string(sample) +
        " is all that is left of this rank's share of a batch, and the model can't be trained on "
        "one alone: it is left out, as others like it will be");
  }
  start_tally(0, 0, 0);
}

StepReport Sync::step(const data::Batch& batch) {
  const Recipe& recipe = context_->recipe();
  StepReport report;
  report.learning_rate = context_->schedule().at(context_->moment());
  optimizer_->set_learning_rate(report.learning_rate);
  // For what draws from LibTorch's generator, as torch::nn::Dropout does (model::Dropout does not):
  // fixed by (seed, step, rank), so that nothing of it has to be saved.
  torch::manual_seed(RandomStream(static_cast<std::uint64_t>(recipe.seed),
                                  static_cast<std::uint64_t>(context_->moment().step),
                                  static_cast<std::uint64_t>(communicator_.rank()))());
  const double exposed = model_->statistics().exposed_seconds;
  const parallel::NormalizationSeconds normalized = model_->normalization_seconds();
  optimizer_->zero_grad();
  bool update = true;
  const std::vector<Part> parts = parts_of(batch);
  if (batch.size() < least_share_) {
    join_without_samples(batch);
    update = model_->reducer().join_with_zeros();
  } else if (!parts.empty()) {
    forward_and_backward(batch, parts, report);
  } else {
    start_tally(0, 0, batch.size());
    update = model_->reducer().join_with_zeros();
  }
  const double in_forward = model_->normalization_seconds().forward - normalized.forward;
  const double in_backward = model_->normalization_seconds().backward - normalized.backward +
                             model_->statistics().exposed_seconds - exposed;
  report.communication_s = in_forward + in_backward;
  report.forward_s = std::max(0.0, report.forward_s - in_forward);
  report.backward_s = std::max(0.0, report.backward_s - in_backward);
  const auto start = Clock::now();
  if (update) {
    if (recipe.training.clip_norm > 0) model_->clip_grad_norm(recipe.training.clip_norm);
    optimizer_->step();
  }
  report.update_s = end_of("update", start);
  tally_.finish(report);
  return report;
}

void Sync::run() {
  data::SampleSource& samples = context_->samples();
  while (true) {
    follow(context_->timeline());
    const auto start = Clock::now();
    const data::Batch* batch = samples.next();
    if (batch == nullptr) continue;  // the next epoch begins
    const double waited = end_of("data", start);
    const auto asked = Clock::now();
    const bool ask = tally_.long_updates();
    if (ask && tally_.told_to_stop(context_->requests())) return context_->stopped();
    const double answered = ask ? end_of("exposed communication", asked) : 0;
    StepReport report = step(*batch);
    report.data_s = waited;
    report.communication_s += answered;
    end_of("step", start);
    if (!context_->updated(report)) return;
  }
}

// From now on spans go to this timeline, or nowhere.
void Sync::follow(Timeline* timeline) {
  if (timeline == timeline_) return;
  timeline_ = timeline;
  rows_.reset();
  if (timeline_ != nullptr) rows_.emplace(*timeline_, model_->reducer());
}

// The seconds of a phase that ends now.
double Sync::end_of(const char* phase, Clock::time_point start) {
  const auto now = Clock::now();
  if (timeline_ != nullptr) timeline_->add(Timeline::kTraining, phase, start, now);
  return std::chrono::duration<double>(now - start).count();
}

State Sync::state() {
  State state;
  describe_module(*network_, state);
  optimizer_->save(state);
  std::vector<std::string> order;
  for (const auto& bucket : model_->reducer().buckets()) {
    order.insert(order.end(), bucket.begin(), bucket.end());
  }
  state.lists["sync.gradient_order"] = std::move(order);
  state.rank = buffers_.own();
  return state;
}

void Sync::with_whole_model(const std::function<void()>& use) { buffers_.with_united(use); }

void check_recipe(const Recipe& recipe, std::vector<std::string>& problems) {
  const auto choose = [&](const char* key, const char* a, const char* b) {
    const std::string& value = recipe.strategy_options.text(key);
    if (value == a || value == b) return;
    problems.push_back(std::string("sync.") + key + " is '" + value + "'; it can be " + a + " or " +
                       b);
  };
  choose("batch_norm", "local", "synchronized");
  choose("wire", "own", "bfloat16");
  if (recipe.grid.partitions > 1) {
    problems.push_back("grid.partitions is " + std::to_string(recipe.grid.partitions) +
                       "; with sync every rank holds the whole model: 1");
  }
}

}  // namespace

void add_sync(Registry& registry) {
  registry.add_strategy(
      "sync", [] { return std::make_unique<Sync>(); },
      {{"batch_norm", std::string("local"),
        "statistics in training: of each rank alone (local), or of all (synchronized)"},
       {"bucket", std::string("8MiB"), "gradients that are reduced together"},
       {"first_bucket", std::string("1MiB"),
        "the first of them, so that communication starts early"},
       {"allreduce", std::string(""), "rules that choose the algorithm; empty: the usual choice"},
       {"reproducible", false,
        "sums over ranks with the same bits for every algorithm, bucket and order of ranks"},
       {"wire", std::string("own"), "type in which gradients travel: own, or bfloat16"},
       {"allow_unused", false, "parameters may get no gradient in a step"}},
      check_recipe);
}

}  // namespace convoy::train
