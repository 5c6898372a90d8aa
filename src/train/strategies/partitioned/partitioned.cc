#include "train/strategies/partitioned/partitioned.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/model/dropout.h"
#include "convoy/train/autocast.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/registry.h"
#include "train/channels.h"
#include "train/setup.h"
#include "train/strategies/partitioned/check_layers.h"
#include "train/strategies/partitioned/needs.h"
#include "train/strategies/partitioned/options.h"
#include "train/strategies/partitioned/strategy.h"
#include "train/strategies/partitioned/value_types.h"
#include "train/strategies/reducer_keys.h"

namespace convoy::train {
namespace {

constexpr const char* kPartitions = "partitioned.partitions";

// Whether ranks have different units of the only output there is.
bool divides_output(const model::PartitionPlan& plan) {
  if (plan.partitions == 1 || plan.outputs.size() != 1) return false;
  const model::PartitionedValue& output = plan.values[plan.outputs.front()];
  return output.shape.size() == 1 && !output.whole && !output.input;
}

}  // namespace

// -- Before training

Arrangement Partitioned::arrange(const comm::World& world, const Recipe& recipe) {
  world_ = &world;
  overlap_ = recipe.strategy_options.flag("overlap");
  synchronized_ = synchronized_statistics(recipe);
  grid_.emplace(
      world.communicator(),
      parallel::GridShape::of(recipe.grid.replicas, recipe.grid.partitions, world.size()));
  // Replicas have as many samples, as nearly as can be; then the partitions of each.
  const int share = grid_->partition() * grid_->shape().replicas + grid_->replica();
  return {.share = share, .shares = world.size(), .group = {}};
}

// Also notes what the network takes.
model::Blueprint Partitioned::blueprint_of(const NetworkSource& source) {
  torch::manual_seed(source.seed());  // for modules of the user's
  const auto blueprint = source.blueprint();
  if (!blueprint) {
    throw UsageError("the model '" + source.recipe().model.name +
                     "' is code, which can't be divided: partitioned needs a network that is data "
                     "(a blueprint, or a ModuleList)");
  }
  check_trains_in_parts(*blueprint);
  const Compute& compute = compute_.emplace(source.compute());
  const TaskBatch blank = source.task().blank(1, compute);
  blanks_.clear();
  if (!blank.tensors.empty()) {
    for (const torch::Tensor& input : source.task().inputs(blank))
      blanks_.push_back(input.narrow(0, 0, 0));
    return *blueprint;
  }
  const torch::Tensor like = compute.blank({1, 1, 1});
  for (const model::Shape& shape : blueprint->inputs) {
    std::vector<std::int64_t> sizes{0};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    blanks_.push_back(torch::empty(sizes, like.options()));
  }
  return *blueprint;
}

// Of raw records nobody knows how many a batch has: it is counted in something else.
ReplicaShare Partitioned::replica_share(const NetworkSource& source) const {
  const Recipe& recipe = source.recipe();
  ReplicaShare share{.replicas = grid_->shape().replicas};
  const std::int64_t batch = source.trains() ? recipe.training.batch : evaluation_batch(recipe);
  if (!source.task().raw()) share.samples = (batch + share.replicas - 1) / share.replicas;
  share.copies = source.copies_beside();
  return share;
}

static NetworkUse use_of(const NetworkSource& source) {
  if (source.trains()) return NetworkUse::training;
  return source.copies_beside() < 0 ? NetworkUse::inference : NetworkUse::following;
}

std::vector<model::Shape> Partitioned::input_shapes() const {
  std::vector<model::Shape> shapes;
  for (const torch::Tensor& blank : blanks_) shapes.push_back(blank.sizes().slice(1).vec());
  return shapes;
}

void Partitioned::check_memory(const NetworkSource& source, const model::Blueprint& blueprint,
                               const model::PartitionPlan& plan) const {
  check_needs(*world_, source.recipe(), source.job(), blueprint, plan, replica_share(source),
              grid_->partition(), use_of(source));
}

void Partitioned::build(const NetworkSource& source) {
  const model::Blueprint blueprint = blueprint_of(source);
  const Compute& compute = *compute_;
  const torch::Tensor like = compute.blank({1, 1, 1});
  const std::vector<model::Shape> inputs = input_shapes();
  const model::PartitionRules rules = partition_rules(source.recipe(), blueprint, inputs);
  model::PartitionPlan plan = plan_partition(blueprint, inputs, rules);
  share_ = replica_share(source);
  // Of memory at this moment; said where the network is trained.
  needs_text_ = describe_needs(source.recipe(), blueprint, plan, share_, use_of(source));
  check_memory(source, blueprint, plan);
  whole_parameters_ = cost_of(blueprint, inputs).parameters;
  check_own_statistics(blueprint, plan);
  least_rows_ = least_rows(blueprint, plan, like.scalar_type(), replicas_together());
  const TaskBatch blank = source.task().blank(1, compute);
  blank_targets_ = torch::Tensor();
  if (!blank.tensors.empty() && divides_output(plan)) {
    const torch::Tensor targets = source.task().divided_targets(blank);
    if (targets.defined()) blank_targets_ = targets.narrow(0, 0, 0);
  }
  const bool mixed = source.recipe().precision == "bfloat16";
  if (source.recipe().strategy_options.flag("check"))
    check_user_layers(*world_, blueprint, plan, mixed ? torch::kBFloat16 : like.scalar_type());
  network_ = std::make_shared<PartitionedNetwork>(blueprint, std::move(plan), source.seed(),
                                                  grid_->partition());
  // As the whole network's are: their masks depend on their names.
  model::name_layers(*network_);
  compute.place(*network_);
  find_types(like, mixed);
  links_.emplace(grid_->partitions());
  sort_parameters();
}

// Layers that Convoy knows leave the type of images as it is, unless autocast changes it.
void Partitioned::find_types(const torch::Tensor& like, bool mixed) {
  types_.clear();
  for (const torch::Tensor& blank : blanks_) types_.push_back(blank.scalar_type());
  const model::PartitionPlan& plan = network_->plan();
  const bool users = std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](const auto& place) {
    return std::holds_alternative<model::layer::Opaque>(
        plan.node_of(network_->blueprint(), place).kind);
  });
  if (mixed || users) {
    const Autocast autocast = compute_->autocast();
    types_ = value_types(*network_, grid_->partitions(), types_, like.device());
  } else {
    types_.resize(plan.values.size(), like.scalar_type());
  }
}

// In the order of the layers, whatever the modules are registered by, and however they are divided.
void Partitioned::sort_parameters() {
  std::map<std::string, at::Tensor> parameters;
  std::set<std::string> held;
  absent_.clear();
  for (const auto& parameter : parallel::unique_parameters(*network_))
    parameters[parameter.name] = parameter.tensor;
  for (const auto& [name, tensor] : parameters) held.insert(name);
  for (const auto& buffer : parallel::unique_buffers(*network_)) held.insert(buffer.name);
  parameters_.clear();
  shared_.clear();
  divided_.clear();
  const model::PartitionPlan& plan = network_->plan();
  for (const model::PartitionedNode& node : plan.nodes) {
    for (const model::TensorInfo& info : tensors_of(plan.node_of(network_->blueprint(), node))) {
      if (!held.contains(info.name)) absent_.insert(info.name);
      const auto found = parameters.find(info.name);
      if (found == parameters.end() || !found->second.requires_grad()) continue;
      auto& list = network_->parts().contains(info.name) ? divided_ : shared_;
      list.push_back({info.name, found->second});
      parameters_.push_back(list.back());
      parameters.erase(found);
    }
  }
  for (const auto& [name, tensor] : parameters) {
    if (tensor.requires_grad())
      throw Failure("parameter '" + name + "' is of no layer of the partition plan");
  }
}

// Backward produces gradients in the opposite order of the layers: one that is not measured is the
// same in every run, and on ranks of which one computes nothing of a layer.
std::unique_ptr<parallel::GradientReducer> Partitioned::make_reducer(
    const comm::Communicator& ranks, const std::vector<parallel::NamedTensor>& parameters) const {
  if (parameters.empty() || ranks.size() == 1) return nullptr;
  check_same_on_all_ranks(ranks, parameters);
  parallel::broadcast_tensors(ranks, parameters);
  parallel::ReducerOptions options = distributed_options(context_->recipe());
  // Each rank's loss is its part of the mean over all.
  options.averaging = parallel::Averaging::sum;
  options.nominal_samples = 1;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) options.order.push_back(p->name);
  return std::make_unique<parallel::GradientReducer>(
      ranks, std::vector<std::vector<parallel::NamedTensor>>{parameters}, options);
}

Sharers Partitioned::sharers() const {
  const bool ranks = grid_->shape().partitions == 1;
  return {.count = static_cast<std::size_t>(grid_->shape().replicas),
          .name = ranks ? "rank" : "replica",
          .fewer_may_share = ranks && !replicas_together()};
}

// Samples are shared out to ranks: where one is a whole replica, to as many as have enough.
std::size_t Partitioned::least_share(TrainerContext&) {
  return sharers().fewer_may_share ? static_cast<std::size_t>(least_rows_) : 1;
}

void Partitioned::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  if (world_->rank() == 0) world_->log().info(needs_text_);
  const comm::Communicator& all = context.world().communicator();
  const auto own = [reproducible = context.recipe().strategy_options.flag("reproducible")](
                       const comm::Communicator& ranks) {
    return reproducible ? ranks.with_reproducible(true) : ranks.duplicate();
  };
  if (replicas_together()) check_synchronized_shares(context, sharers());
  // Batches that aren't counted in samples can't be looked at: see step().
  if (!context.task().raw())
    check_least_share(context, static_cast<std::size_t>(least_rows_), sharers());
  communicator_ = own(all);
  norms_ = grid_->partitions().with_reproducible(true);
  image_statistics_ = own(synchronized_ ? all : grid_->partitions());
  unit_statistics_ = own(grid_->replicas());
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  shared_sums_ = make_reducer(all, shared_);
  divided_sums_ = make_reducer(grid_->replicas(), divided_);
  optimizer_.emplace(context.make_optimizer(parameters_));
  optimizer_->set_divided(norms_, names_of(divided_));
  // Those of a partition's replicas have the same shapes.
  buffers_ = LocalBuffers(own(grid_->replicas()), parallel::unique_buffers(*network_));
  if (saved == nullptr) return;
  optimizer_->load(*saved);
  buffers_.load(own_buffers(*saved));
}

// Buffers of each replica. Those of a layer that is divided are a rank's part of them, which a run
// knows that divides the layer alike.
std::string Partitioned::part_suffix(const Slice& part) const {
  std::string suffix =
      "#" + std::to_string(grid_->partition()) + "/" + std::to_string(grid_->shape().partitions);
  for (const std::int64_t begin : part.begin) suffix += "@" + std::to_string(begin);
  return suffix;
}

// Of a rank of another arrangement they are of other samples: what the ranks had together counts.
Tensors Partitioned::own_buffers(const State& saved) const {
  const auto partitions = saved.numbers.find(kPartitions);
  const double then = partitions == saved.numbers.end() ? 1 : partitions->second;
  if (then != grid_->shape().partitions) return {};
  Tensors own;
  for (const auto& [name, tensor] : saved.rank) {
    const std::string mine = name.substr(0, name.rfind('#'));
    const auto slice = network_->parts().find(mine);
    if (slice == network_->parts().end()) {
      if (mine == name) own[mine] = tensor;
    } else if (name == mine + part_suffix(slice->second) &&
               at::IntArrayRef(slice->second.size) == tensor.sizes()) {
      own[mine] = tensor;
    }
  }
  return own;
}

// -- What is saved and used

State Partitioned::state() {
  State state;
  describe_module(*network_, state);
  for (const auto& [name, slice] : network_->parts()) {
    if (!slice.whole() && slice.elements() > 0) state.parts[name] = slice;
  }
  optimizer_->save(state);
  for (auto& [name, tensor] : buffers_.own()) {
    const auto part = network_->parts().find(name);
    state.rank[part == network_->parts().end() ? name : name + part_suffix(part->second)] = tensor;
  }
  state.numbers[kPartitions] = grid_->shape().partitions;
  return state;
}

void Partitioned::with_whole_model(const std::function<void()>& use) { buffers_.with_united(use); }

std::optional<Slice> Partitioned::wanted(const Slice& whole) {
  if (absent_.contains(whole.tensor)) return std::nullopt;
  const auto part = network_->parts().find(whole.tensor);
  if (part == network_->parts().end()) return whole;
  if (part->second.shape == whole.shape) {
    if (part->second.elements() == 0) return std::nullopt;
    return part->second;
  }
  // Of another network: nothing of it fits, even if it has the shape of the part.
  Slice none = whole;
  if (whole.shape == part->second.size) std::fill(none.size.begin(), none.size.end(), 0);
  return none;
}

Communicated Partitioned::communicated() {
  Communicated all;
  for (std::size_t kind = 0; kind < Links::kKinds; ++kind) {
    const auto& payload = links_->payload(static_cast<Links::Kind>(kind));
    all.exchanged.push_back({Links::kNames[kind], payload.sent, payload.received});
  }
  if (shared_sums_) all.sums = shared_sums_->statistics();
  if (divided_sums_) {
    const auto& sums = divided_sums_->statistics();
    all.group_sum_bytes = sums.bytes * sums.steps;
    all.sums.exposed_seconds += sums.exposed_seconds;
    all.sums.copy_seconds += sums.copy_seconds;
  }
  return all;
}

std::unique_ptr<PartitionedPass> Partitioned::new_pass(const Rows& rows) {
  return std::make_unique<PartitionedPass>(
      PartitionedPass{.links = *links_, .rows = rows, .types = types_, .overlap = overlap_});
}

// Regions of all layers follow from the inputs' shapes.
void Partitioned::check_inputs(const TensorList& inputs) const {
  for (std::size_t i = 0; i < inputs.size() && i < blanks_.size(); ++i) {
    const auto planned = blanks_[i].sizes().slice(1), given = inputs[i].sizes().slice(1);
    if (given == planned) continue;
    throw UsageError("the network is divided for inputs of " + model::text_of(planned.vec()) +
                     ", and can't take " + model::text_of(given.vec()) +
                     ": make them as large (data.size), or use it whole, with --set strategy=sync");
  }
}

TensorList Partitioned::inputs_of(const Task& task, const std::optional<TaskBatch>& rows) const {
  if (!rows) return blanks_;
  TensorList inputs = task.inputs(*rows);
  for (const torch::Tensor& input : inputs) {
    if (input.size(0) != inputs.front().size(0)) {
      throw UsageError(
          "partitioned needs as many rows in each input of the network; the task has " +
          std::to_string(input.size(0)) + " and " + std::to_string(inputs.front().size(0)));
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < blanks_.size() && inputs[i].scalar_type() == blanks_[i].scalar_type()) continue;
    throw UsageError(
        "partitioned has to know the types of the network's inputs before there are samples: the "
        "task can't make blank ones (Task::blank), or others than its inputs are");
  }
  check_inputs(inputs);
  return inputs;
}

// Every rank has the inputs, and computes its part.
TensorList Partitioned::forward(const TensorList& inputs) {
  const torch::NoGradGuard no_grad;
  check_inputs(inputs);
  const Autocast autocast = compute_->autocast();
  Rows rows{std::vector<std::int64_t>(static_cast<std::size_t>(links_->size()), 0)};
  rows.of[0] = inputs.at(0).size(0);
  const auto pass = new_pass(rows);
  return network_->run_alike(*pass, inputs);
}

bool Partitioned::infer(const Task& task, const Compute& compute, const data::Batch& batch,
                        const UseOutputs& use) {
  const torch::NoGradGuard no_grad;
  std::optional<TaskBatch> own;
  if (batch.size() > 0) own = task.tensors(batch, {0, batch.size()}, compute);
  const TensorList inputs = inputs_of(task, own);
  const Rows rows{links_->group().gather(inputs.front().size(0), channels::kInferred)};
  if (rows.all() == 0) return true;
  const Autocast autocast = compute.autocast();
  const auto pass = new_pass(rows);
  const TensorList outputs = network_->run(*pass, inputs);
  if (own) use(outputs, *own);
  return true;
}

void add_partitioned(Registry& registry) {
  registry.add_strategy(
      "partitioned", [] { return std::make_unique<Partitioned>(); }, partitioned_keys(),
      check_partitioned);
}

std::unique_ptr<Strategy> make_partitioned() { return std::make_unique<Partitioned>(); }

}  // namespace convoy::train
