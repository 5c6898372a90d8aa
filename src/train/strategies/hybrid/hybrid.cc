#include "train/strategies/hybrid/hybrid.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/train/registry.h"
#include "train/channels.h"
#include "train/setup.h"
#include "train/strategies/hybrid/strategy.h"
#include "train/strategies/reducer_keys.h"

namespace convoy::train {
namespace {

constexpr const char* kOrder = "hybrid.gradient_order";

}  // namespace

// -- Before training

Arrangement Hybrid::arrange(const comm::World& world, const Recipe& recipe) {
  options_ = hybrid_options(recipe);
  synchronized_ = synchronized_statistics(recipe);
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
                     "blueprint, or a ModuleList)");
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
  // As the whole network's are: their masks depend on their names.
  model::name_layers(network_->trunk());
  compute.place(network_->trunk());
  const torch::Tensor like = compute.blank({1, 1, 1});
  network_->move_head(like.device(), like.scalar_type());
  wire_ = source.recipe().precision == "bfloat16" ? torch::kBFloat16 : like.scalar_type();
  exchange_.emplace(grid_->partitions());
  head_.emplace(*network_, *exchange_, compute, wire_);
}

std::size_t Hybrid::least_share(TrainerContext& context) {
  if (!synchronized_ || context.world().size() == 1)
    least_share_ = least_samples(network_->trunk(), context.task(), context.compute());
  return least_share_;
}

parallel::DistributedOptions Hybrid::trunk_options(const State* saved) const {
  parallel::DistributedOptions distributed = distributed_options(context_->recipe());
  // Each rank's loss is its part of the mean over all.
  distributed.averaging = parallel::Averaging::sum;
  distributed.nominal_samples = 1;
  if (saved == nullptr) return distributed;
  const auto order = saved->lists.find(kOrder);
  if (order != saved->lists.end())
    distributed.order = order_that_fits(order->second, network_->trunk());
  return distributed;
}

// Gradients of partitioned layers come in the opposite order of the layers.
std::unique_ptr<parallel::GradientReducer> Hybrid::make_head_sums() const {
  const auto& parameters = optimizers_->head_parameters();
  if (replicas_.size() == 1 || parameters.empty()) return nullptr;
  parallel::ReducerOptions options = distributed_options(context_->recipe());
  options.averaging = parallel::Averaging::sum;
  options.nominal_samples = 1;
  options.compute_in_buckets = false;  // but late: see LateGradients
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) options.order.push_back(p->name);
  auto sums = std::make_unique<parallel::GradientReducer>(
      replicas_, std::vector<std::vector<parallel::NamedTensor>>{parameters}, options);
  sums->set_synchronizing(false);  // they are given when all passes are over
  return sums;
}

// Passes of the usual batch that have samples.
double Hybrid::updates_of_head() const {
  const auto batch = static_cast<std::size_t>(context_->recipe().training.batch);
  const auto partitions = static_cast<std::size_t>(grid_->shape().partitions);
  std::vector<std::size_t> shares;  // those of the first group
  for (std::size_t p = 0; p < partitions; ++p) {
    shares.push_back(
        data::even_share({0, batch}, static_cast<int>(p), communicator_.size()).size());
  }
  const std::vector<Round> rounds = rounds_of(shares);
  const auto used = std::count_if(rounds.begin(), rounds.end(),
                                  [](const Round& round) { return round.samples() > 0; });
  return static_cast<double>(std::max<std::ptrdiff_t>(1, used));
}

void Hybrid::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  if (synchronized_) check_synchronized_shares(context, all_ranks(context));
  check_least_share(context, least_share_, all_ranks(context));
  const comm::Communicator& all = context.world().communicator();
  const auto own = [reproducible = context.recipe().strategy_options.flag("reproducible")](
                       const comm::Communicator& ranks) {
    return reproducible ? ranks.with_reproducible(true) : ranks.duplicate();
  };
  communicator_ = own(all);
  replicas_ = own(grid_->replicas());
  norms_ = grid_->partitions().with_reproducible(true);
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  // Of the usual batch: the last one of an epoch is smaller, as it is for one process.
  const double k = static_cast<double>(context.recipe().training.batch) / options_.base_batch;
  const double passes = options_.variable_batch ? updates_of_head() : 1;
  optimizers_.emplace(context, *network_, HybridOptimizers::Batches{options_.rates, k, k / passes},
                      norms_);
  if (optimizers_->trains_trunk()) {
    trunk_.emplace(all, network_->shared_trunk(), trunk_options(saved));
    // What of the divided weights' gradients there was no time for yet.
    trunk_->reducer().set_meanwhile([this] { return head_->finish_some(); });
  }
  parallel::broadcast_tensors(replicas_, optimizers_->head_parameters());
  head_sums_ = make_head_sums();
  buffers_ = LocalBuffers(communicator_, parallel::unique_buffers(*network_));
  if (saved == nullptr) return;
  optimizers_->load(*saved);
  buffers_.load(saved->rank);
}

// -- What is saved and used

State Hybrid::state() {
  State state;
  describe_module(*network_, state);
  for (const auto& [name, slice] : network_->parts()) {
    if (!slice.whole()) state.parts[name] = slice;
  }
  optimizers_->save(state);
  // Before the first update it is not the one that is measured then.
  if (trunk_ && context_->moment().step > 0) {
    std::vector<std::string>& order = state.lists[kOrder];
    for (const auto& bucket : trunk_->reducer().buckets())
      order.insert(order.end(), bucket.begin(), bucket.end());
  }
  state.rank = buffers_.own();
  return state;
}

void Hybrid::with_whole_model(const std::function<void()>& use) { buffers_.with_united(use); }

std::optional<Slice> Hybrid::wanted(const Slice& whole) {
  const auto part = network_->parts().find(whole.tensor);
  if (part == network_->parts().end()) return whole;
  if (part->second.shape == whole.shape) return part->second;
  // Of another network: nothing of it fits, even if it has the shape of the part.
  Slice none = whole;
  if (whole.shape == part->second.size) std::fill(none.size.begin(), none.size.end(), 0);
  return none;
}

Communicated Hybrid::communicated() {
  Communicated all;
  for (std::size_t kind = 0; kind < Exchange::kKinds; ++kind) {
    const auto& payload = exchange_->payload(static_cast<Exchange::Kind>(kind));
    all.exchanged.push_back({Exchange::kNames[kind], payload.sent, payload.received});
  }
  if (trunk_) all.sums = trunk_->statistics();
  if (head_sums_) {
    const auto& sums = head_sums_->statistics();
    all.group_sum_bytes = sums.bytes * sums.steps;
    all.sums.exposed_seconds += sums.exposed_seconds;
    all.sums.copy_seconds += sums.copy_seconds;
  }
  return all;
}

// Every rank has the inputs, and computes all but its peers' units.
TensorList Hybrid::forward(const TensorList& inputs) {
  return {head_->scores_of_all(network_->trunk().run(inputs).front().detach())};
}

bool Hybrid::infer(const Task& task, const Compute& compute, const data::Batch& batch,
                   const UseOutputs& use) {
  const std::vector<std::size_t> group =
      exchange_->group().gather(batch.size(), channels::kInferred);
  HeadInput input;
  input.rounds = plan_inference_rounds(group, options_.senders, options_.passes);
  input.views = batch.views;
  input.activations = torch::empty({0, network_->head().front().inputs}, wire_);
  std::optional<TaskBatch> rows;
  if (batch.size() > 0) {
    rows = task.tensors(batch, {0, batch.size()}, compute);
    input.activations =
        boundary_of(task, *rows, batch.size(), batch.views, rows->weight).to(wire_).contiguous();
  }
  const torch::Tensor scores = head_->scores(input);
  if (rows) use({scores}, *rows);
  return true;
}

void add_hybrid(Registry& registry) {
  registry.add_strategy(
      "hybrid", [] { return std::make_unique<Hybrid>(); }, hybrid_keys(), check_hybrid);
}

}  // namespace convoy::train
