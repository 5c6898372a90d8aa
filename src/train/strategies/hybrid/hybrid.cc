#include "train/strategies/hybrid/hybrid.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/units.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/placement.h"
#include "convoy/train/registry.h"
#include "parallel/tensors.h"
#include "train/setup.h"
#include "train/strategies/hybrid/head.h"
#include "train/strategies/hybrid/optimizers.h"
#include "train/strategies/hybrid/options.h"
#include "train/strategies/sync/buffers.h"
#include "train/strategies/sync/shares.h"
#include "train/strategies/tally.h"

namespace convoy::train {
namespace {

constexpr const char* kOrder = "hybrid.gradient_order";

// What this rank has of a batch.
struct Share {
  std::size_t samples = 0;      // that take part
  std::vector<double> weights;  // of its pieces, by round
  double weight = 0;
};

// What all ranks have of it.
struct Whole {
  std::vector<std::size_t> group;  // samples of the ranks of this group
  std::vector<double> weights;     // of the rounds of all groups
  double weight = 0;
};

class Hybrid final : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return network_->whole_parameters(); }
  std::size_t least_share(TrainerContext& context) override;
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override;
  State state() override;
  void with_whole_model(const std::function<void()>& use) override;
  std::optional<Slice> wanted(const Slice& whole) override;
  TensorList forward(const TensorList& inputs) override;
  bool score(const Task& task, const Compute& compute, const data::Batch& batch,
             std::span<double> sums) override;

 private:
  parallel::DistributedOptions trunk_options(const State* saved) const;
  StepReport step(const data::Batch& batch);
  Share share_of(const data::Batch& batch);
  Whole whole_of_all(const std::function<void()>& meanwhile, const Share& share);
  torch::Tensor trunk_forward(const data::Batch& batch, const Share& share, StepReport& report);
  torch::Tensor train_head(const data::Batch& batch, const torch::Tensor& boundary,
                           const Share& share, const Whole& whole, double& loss);
  void trunk_backward(const torch::Tensor& boundary, const torch::Tensor& gradient,
                      StepReport& report);
  void update_head_alone(double weight);
  void start_sums_of_head();
  void finish_sums_of_head();
  torch::Tensor boundary_of(const Task& task, const TaskBatch& rows, std::size_t samples,
                            std::int64_t views, double weight);
  std::vector<parallel::NamedTensor> local_buffers() const;
  std::vector<parallel::NamedTensor> own_candidates() const;
  void follow(Timeline* timeline);
  double end_of(const char* phase, Clock::time_point start);

  HybridOptions options_;
  std::optional<parallel::Grid> grid_;
  std::shared_ptr<SplitNetwork> network_;
  std::optional<Compute> compute_;
  at::ScalarType wire_ = torch::kFloat;
  std::optional<Exchange> exchange_;
  std::optional<Head> head_;
  TrainerContext* context_ = nullptr;
  // Of the layers that every rank has; none if they have no parameters.
  std::optional<parallel::DistributedModel<model::StagedNetwork>> trunk_;
  std::optional<HybridOptimizers> optimizers_;
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  comm::Communicator replicas_;      // for gradients of partitioned layers
  struct HeadSum {
    torch::Tensor gradient, host;
    comm::Operation sum;  // ends before its tensors do
  };
  std::vector<HeadSum> head_sums_;
  Tally tally_;
  bool synchronized_ = false;  // batch norm
  bool united_ = false;        // the network holds buffers of all ranks,
  Tensors own_buffers_;        // and this those of this one
  std::size_t least_share_ = 1;
  std::uint64_t unused_ = 0;  // samples of shares that were left with fewer
  Timeline* timeline_ = nullptr;
  std::optional<ReducerRows> rows_;
};

// -- Before training

Arrangement Hybrid::arrange(const comm::World& world, const Recipe& recipe) {
  options_ = hybrid_options(recipe);
  grid_.emplace(
      world.communicator(),
      parallel::GridShape::of(recipe.grid.replicas, recipe.grid.partitions, world.size()));
  return {.share = world.rank(), .shares = world.size(), .group = {}};
}

void Hybrid::build(const NetworkSource& source) {
  torch::manual_seed(source.seed());  // for modules of the user's
  const auto blueprint = source.blueprint();
  if (!blueprint) {
    throw UsageError("the model '" + source.recipe().model.name +
                     "' is code, which can't be divided: hybrid needs a network that is data (a "
                     "blueprint, or a list of modules)");
  }
  std::vector<model::Shape> inputs = blueprint->inputs;
  const Compute& compute = compute_.emplace(source.compute());
  const TaskBatch blank = source.task().blank(1, compute);
  if (!blank.tensors.empty()) {
    inputs.clear();
    for (const torch::Tensor& input : source.task().inputs(blank))
      inputs.push_back(input.sizes().slice(1).vec());
  }
  network_ =
      std::make_shared<SplitNetwork>(*blueprint, inputs, source.recipe().placement, source.seed(),
                                     grid_->partition(), grid_->shape().partitions);
  compute.place(network_->trunk());
  const torch::Tensor like = compute.blank({1, 1, 1});
  network_->move_head(like.device(), like.scalar_type());
  wire_ = source.recipe().precision == "bfloat16" ? torch::kBFloat16 : like.scalar_type();
  exchange_.emplace(grid_->partitions());
  head_.emplace(*network_, *exchange_, compute, wire_);
}

std::size_t Hybrid::least_share(TrainerContext& context) {
  if (!options_.synchronized || context.world().size() == 1)
    least_share_ = least_samples(network_->trunk(), context.task(), context.compute());
  return least_share_;
}

parallel::DistributedOptions Hybrid::trunk_options(const State* saved) const {
  parallel::DistributedOptions distributed;
  distributed.bucket_bytes = options_.bucket;
  distributed.first_bucket_bytes = options_.first_bucket;
  distributed.allreduce = options_.allreduce;
  distributed.reproducible = options_.reproducible;
  if (options_.bfloat16_wire) distributed.wire_type = at::kBFloat16;
  if (synchronized_) distributed.batch_norm = parallel::BatchNormStatistics::synchronized;
  // Each rank's loss is its part of the mean over all.
  distributed.averaging = parallel::Averaging::sum;
  distributed.nominal_samples = 1;
  if (saved == nullptr) return distributed;
  const auto order = saved->lists.find(kOrder);
  if (order == saved->lists.end()) return distributed;
  // Of a run with other layers partitioned it may be of others.
  std::set<std::string> mine, theirs(order->second.begin(), order->second.end());
  for (const auto& parameter : parallel::unique_parameters(network_->trunk()))
    mine.insert(parameter.name);
  if (mine == theirs) distributed.order = order->second;
  return distributed;
}

void Hybrid::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  synchronized_ = options_.synchronized;
  if (synchronized_) check_synchronized_shares(context);
  check_least_share(context, least_share_);
  const comm::Communicator& all = context.world().communicator();
  communicator_ = options_.reproducible ? all.with_reproducible(true) : all.duplicate();
  replicas_ = options_.reproducible ? grid_->replicas().with_reproducible(true)
                                    : grid_->replicas().duplicate();
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  // Of the usual batch: the last one of an epoch is smaller, as it is for one process.
  const double k = static_cast<double>(context.recipe().training.batch) / options_.base_batch;
  const double passes = options_.variable_batch ? grid_->shape().partitions : 1;
  optimizers_.emplace(context, *network_, HybridOptimizers::Batches{options_.rates, k, k / passes});
  if (optimizers_->trains_trunk())
    trunk_.emplace(all, network_->shared_trunk(), trunk_options(saved));
  parallel::broadcast_tensors(replicas_, optimizers_->head_parameters());
  if (saved == nullptr) return;
  optimizers_->load(*saved);
  const torch::NoGradGuard no_grad;
  for (auto& buffer : own_candidates()) {
    const auto own = saved->rank.find(buffer.name);
    if (own != saved->rank.end()) buffer.tensor.copy_(own->second);
  }
}

// Those that may be different on each rank.
std::vector<parallel::NamedTensor> Hybrid::own_candidates() const {
  if (communicator_.size() == 1) return {};
  return parallel::unique_buffers(*network_);
}

std::vector<parallel::NamedTensor> Hybrid::local_buffers() const {
  std::vector<parallel::NamedTensor> all = own_candidates();
  if (synchronized_ && !all.empty()) leave_different(communicator_, all);
  return all;
}

// -- A step

// Nothing for a share that can't be trained on, or counts nothing.
Share Hybrid::share_of(const data::Batch& batch) {
  Share share;
  const auto me = static_cast<std::size_t>(grid_->partition());
  std::vector<std::size_t> shares(static_cast<std::size_t>(grid_->shape().partitions), 0);
  share.weights.resize(plan_rounds(shares, options_.senders).size(), 0);
  if (batch.size() < least_share_) {
    if (batch.size() > 0 && unused_ == 0) {
      context_->world().log().warning(
          "sample " + std::to_string(batch.samples.front()) +
          " is all that is left of this rank's share of a batch, and the model can't be trained on "
          "one alone: it is left out, as others like it will be");
    }
    unused_ += batch.size();
    return share;
  }
  shares[me] = batch.size();
  const std::vector<Round> rounds = plan_rounds(shares, options_.senders);
  for (std::size_t j = 0; j < rounds.size(); ++j) {
    const data::Range& piece = rounds[j].pieces[me];
    if (piece.empty()) continue;
    share.weights[j] = context_->task().weight(batch, piece);
    if (!parallel::GradientReducer::can_count(share.weights[j])) {
      std::ostringstream text;
      text << "the task " << context_->recipe().task.name << " counts " << share.weights[j]
           << "; that has to be 0, or from " << parallel::GradientReducer::kLeastSamples << " to "
           << parallel::GradientReducer::kMostSamples;
      throw UsageError(text.str());
    }
    share.weight += share.weights[j];
  }
  if (share.weight > 0) share.samples = batch.size();
  if (share.weight == 0 && synchronized_ && communicator_.size() > 1) {
    throw UsageError(
        "hybrid.batch_norm is synchronized, so every rank takes part in every step; the task " +
        context_->recipe().task.name + " says that the share of one counts nothing, with sample " +
        std::to_string(batch.samples.front()) + ": set hybrid.batch_norm = \"local\"");
  }
  return share;
}

// What each rank has is told to all while `meanwhile` runs.
Whole Hybrid::whole_of_all(const std::function<void()>& meanwhile, const Share& share) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<double> told(ranks + share.weights.size(), 0);
  told[static_cast<std::size_t>(communicator_.rank())] = static_cast<double>(share.samples);
  std::copy(share.weights.begin(), share.weights.end(),
            told.begin() + static_cast<std::ptrdiff_t>(ranks));
  comm::Operation sum =
      communicator_.start_allreduce(comm::buffer_of(told), comm::ReduceOp::sum, {2, 0});
  meanwhile();
  sum.wait();
  Whole whole;
  const auto partitions = static_cast<std::size_t>(grid_->shape().partitions);
  const std::size_t first = static_cast<std::size_t>(grid_->replica()) * partitions;
  for (std::size_t p = 0; p < partitions; ++p)
    whole.group.push_back(static_cast<std::size_t>(told[first + p]));
  whole.weights.assign(told.begin() + static_cast<std::ptrdiff_t>(ranks), told.end());
  for (const double weight : whole.weights) whole.weight += weight;
  return whole;
}

// What the partitioned layers get of these rows.
torch::Tensor Hybrid::boundary_of(const Task& task, const TaskBatch& rows, std::size_t samples,
                                  std::int64_t views, double weight) {
  TensorList outputs;
  {
    const Autocast autocast = compute_->autocast();
    const TensorList inputs = task.inputs(rows);
    const auto use = [&](model::StagedNetwork& trunk) { return trunk.run(inputs); };
    outputs = trunk_ ? trunk_->run(weight, use) : use(network_->trunk());
  }
  const torch::Tensor& boundary = outputs.front();
  const std::int64_t wanted = static_cast<std::int64_t>(samples) * views;
  if (boundary.dim() == 2 && boundary.size(0) == wanted) return boundary;
  std::ostringstream text;
  text << "hybrid needs a row for each sample before '" << network_->head().front().name << "'; of "
       << wanted << " the layers before it make " << boundary.sizes();
  throw UsageError(text.str());
}

torch::Tensor Hybrid::trunk_forward(const data::Batch& batch, const Share& share,
                                    StepReport& report) {
  if (share.samples == 0) return {};
  const auto start = Clock::now();
  const TaskBatch rows = context_->task().tensors(batch, {0, batch.size()}, context_->compute());
  const model::RandomScope scope(static_cast<std::uint64_t>(context_->recipe().seed),
                                 static_cast<std::uint64_t>(context_->moment().step), rows.samples);
  const torch::Tensor boundary =
      boundary_of(context_->task(), rows, share.samples, batch.views, share.weight);
  report.forward_s += end_of("forward", start);
  return boundary;
}

// Gives the gradient of the boundary's activations, where they have one.
torch::Tensor Hybrid::train_head(const data::Batch& batch, const torch::Tensor& boundary,
                                 const Share& share, const Whole& whole, double& loss_sum) {
  const Task& task = context_->task();
  const std::vector<Round> rounds = plan_rounds(whole.group, options_.senders);
  const std::size_t me = static_cast<std::size_t>(grid_->partition());
  HeadInput input;
  input.rounds = rounds;
  input.views = batch.views;
  input.activations = boundary.defined()
                          ? boundary.detach().to(wire_).contiguous()
                          : torch::empty({0, network_->head().front().inputs}, wire_);
  HeadStep step;
  step.seed = static_cast<std::uint64_t>(context_->recipe().seed);
  step.step = static_cast<std::uint64_t>(context_->moment().step);
  step.samples = batch.samples.first(share.samples);
  step.gradients = optimizers_->trains_trunk();
  if (options_.variable_batch) {
    for (const double weight : whole.weights) step.factors.push_back(weight / whole.weight);
  }
  step.gradient_of_scores = [&](std::size_t j, const torch::Tensor& scores) {
    // Those that count nothing have no loss: a mean over them would be no number.
    if (share.weights[j] == 0) return torch::zeros_like(scores);
    const TaskBatch rows = task.tensors(batch, rounds[j].pieces[me], context_->compute());
    torch::Tensor leaf = scores.detach().requires_grad_(true);
    torch::Tensor loss;
    {
      const Autocast autocast = context_->compute().autocast();
      loss = task.loss({leaf}, rows);
    }
    loss_sum += loss.item<double>() * share.weights[j];
    const double all = options_.variable_batch ? whole.weights[j] : whole.weight;
    (loss * (share.weights[j] / all)).backward();
    return leaf.grad();
  };
  if (options_.variable_batch)
    step.passed = [&](std::size_t j) { update_head_alone(whole.weights[j]); };
  return head_->train(input, step);
}

// The gradients of replicas, each in an operation of its own.
void Hybrid::start_sums_of_head() {
  if (replicas_.size() == 1) return;
  std::uint16_t key = 0;
  for (const auto& parameter : optimizers_->head_parameters()) {
    torch::Tensor& gradient = parameter.tensor.mutable_grad();
    // A group may have had no samples.
    if (!gradient.defined()) gradient = torch::zeros_like(parameter.tensor);
    HeadSum& own = head_sums_.emplace_back();
    own.gradient = gradient;
    own.host = gradient.to(torch::kCPU).contiguous();  // the same, where it is there already
    own.sum =
        replicas_.start_allreduce(parallel::buffer_of(own.host), comm::ReduceOp::sum, {3, key++});
  }
}

void Hybrid::finish_sums_of_head() {
  const torch::NoGradGuard no_grad;
  for (HeadSum& own : head_sums_) {
    own.sum.wait();
    if (!own.host.is_same(own.gradient)) own.gradient.copy_(own.host);
  }
  head_sums_.clear();
}

// After each pass, with a batch of its own.
void Hybrid::update_head_alone(double weight) {
  if (weight == 0) return;  // of no group
  start_sums_of_head();
  finish_sums_of_head();
  const double norm = context_->recipe().training.clip_norm;
  if (norm > 0) optimizers_->clip_head(grid_->partitions(), norm);
  optimizers_->step_head();
  optimizers_->zero_head();
}

void Hybrid::trunk_backward(const torch::Tensor& boundary, const torch::Tensor& gradient,
                            StepReport& report) {
  if (!trunk_) return;
  const double exposed = trunk_->statistics().exposed_seconds;
  const auto start = Clock::now();
  if (boundary.defined()) {
    boundary.backward(gradient.to(boundary.device(), boundary.scalar_type()));
  } else {
    trunk_->reducer().join_with_zeros();
  }
  const double waited = trunk_->statistics().exposed_seconds - exposed;
  report.communication_s += waited;
  report.backward_s += std::max(0.0, end_of("backward", start) - waited);
}

StepReport Hybrid::step(const data::Batch& batch) {
  const Recipe& recipe = context_->recipe();
  StepReport report;
  report.learning_rate =
      optimizers_->set_learning_rate(context_->schedule().at(context_->moment()));
  // For what draws from LibTorch's generator, as sync does.
  torch::manual_seed(RandomStream(static_cast<std::uint64_t>(recipe.seed),
                                  static_cast<std::uint64_t>(context_->moment().step),
                                  static_cast<std::uint64_t>(communicator_.rank()))());
  optimizers_->zero_grad();
  const double waited = exchange_->waited_seconds();
  const HeadSeconds before = head_->seconds();
  const Share share = share_of(batch);
  torch::Tensor boundary;
  const Whole whole = whole_of_all([&] { boundary = trunk_forward(batch, share, report); }, share);
  double loss = 0;
  const bool update = whole.weight > 0;
  torch::Tensor gradient;
  if (update) gradient = train_head(batch, boundary, share, whole, loss);
  report.forward_s += head_->seconds().forward - before.forward;
  report.backward_s += head_->seconds().backward - before.backward;
  report.communication_s += exchange_->waited_seconds() - waited;
  tally_.start({loss, share.weight, batch.size(),
                context_->samples().statistics().skipped + unused_, context_->requests()});
  if (update && !options_.variable_batch) start_sums_of_head();
  if (update) trunk_backward(boundary, gradient, report);
  const auto asked = Clock::now();
  finish_sums_of_head();
  report.communication_s += seconds_since(asked);
  const auto start = Clock::now();
  if (update) {
    const double norm = recipe.training.clip_norm;
    if (norm > 0 && options_.variable_batch) optimizers_->clip_trunk(grid_->partitions(), norm);
    if (norm > 0 && !options_.variable_batch) optimizers_->clip(grid_->partitions(), norm);
    optimizers_->step_trunk();
    if (!options_.variable_batch) optimizers_->step_head();
  }
  report.update_s = end_of("update", start);
  tally_.finish(report);
  return report;
}

void Hybrid::run() {
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
void Hybrid::follow(Timeline* timeline) {
  if (timeline == timeline_) return;
  timeline_ = timeline;
  exchange_->set_timeline(timeline);
  head_->set_timeline(timeline);
  rows_.reset();
  if (timeline_ != nullptr && trunk_) rows_.emplace(*timeline_, trunk_->reducer());
}

// The seconds of a phase that ends now.
double Hybrid::end_of(const char* phase, Clock::time_point start) {
  const auto now = Clock::now();
  if (timeline_ != nullptr) timeline_->add(Timeline::kTraining, phase, start, now);
  return std::chrono::duration<double>(now - start).count();
}

// -- What is saved and used

State Hybrid::state() {
  State state;
  describe_module(*network_, state);
  for (const auto& [name, slice] : network_->parts()) {
    if (!slice.whole()) state.parts[name] = slice;
  }
  optimizers_->save(state);
  if (trunk_) {
    std::vector<std::string> order;
    for (const auto& bucket : trunk_->reducer().buckets())
      order.insert(order.end(), bucket.begin(), bucket.end());
    state.lists[kOrder] = std::move(order);
  }
  state.rank = own_buffers_;
  if (!united_) {
    for (auto& buffer : local_buffers()) state.rank.emplace(buffer.name, buffer.tensor);
  }
  return state;
}

void Hybrid::with_whole_model(const std::function<void()>& use) {
  const torch::NoGradGuard no_grad;
  std::vector<parallel::NamedTensor> buffers = local_buffers();
  for (auto& buffer : buffers) own_buffers_[buffer.name] = buffer.tensor.clone();
  const auto restore = [&] {
    for (auto& buffer : buffers) buffer.tensor.copy_(own_buffers_.at(buffer.name));
    own_buffers_.clear();
    united_ = false;
  };
  unite_buffers(communicator_, buffers);
  united_ = true;
  try {
    use();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

std::optional<Slice> Hybrid::wanted(const Slice& whole) {
  const auto part = network_->parts().find(whole.tensor);
  if (part == network_->parts().end()) return whole;
  if (part->second.shape == whole.shape) return part->second;
  // Of another network: nothing of it fits, even if it has the shape of the part.
  Slice none = whole;
  if (whole.shape == part->second.size) std::fill(none.size.begin(), none.size.end(), 0);
  return none;
}

// Every rank has the inputs, and computes all but its peers' units.
TensorList Hybrid::forward(const TensorList& inputs) {
  return {head_->scores_of_all(network_->trunk().run(inputs).front().detach())};
}

bool Hybrid::score(const Task& task, const Compute& compute, const data::Batch& batch,
                   std::span<double> sums) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(exchange_->size()), 0);
  shares[static_cast<std::size_t>(exchange_->rank())] = static_cast<std::int64_t>(batch.size());
  exchange_->group().allreduce(comm::buffer_of(shares), comm::ReduceOp::sum, {40, 0});
  const std::vector<std::size_t> group(shares.begin(), shares.end());
  HeadInput input;
  input.rounds = plan_rounds(group, options_.senders);
  input.views = batch.views;
  input.activations = torch::empty({0, network_->head().front().inputs}, wire_);
  std::optional<TaskBatch> rows;
  if (batch.size() > 0) {
    rows = task.tensors(batch, {0, batch.size()}, compute);
    input.activations =
        boundary_of(task, *rows, batch.size(), batch.views, rows->weight).to(wire_).contiguous();
  }
  const torch::Tensor scores = head_->scores(input);
  if (rows) task.measure({scores}, *rows, sums);
  return true;
}

}  // namespace

void add_hybrid(Registry& registry) {
  registry.add_strategy(
      "hybrid", [] { return std::make_unique<Hybrid>(); }, hybrid_keys(), check_hybrid);
}

}  // namespace convoy::train
