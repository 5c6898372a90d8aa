// Times of layers, of updates, and of what ranks reach each other through.
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/median.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/model/randomness.h"
#include "convoy/train/compute.h"
#include "convoy/train/layout.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/planning.h"
#include "convoy/train/task.h"
#include "convoy/train/training_loss.h"
#include "train/planning/links.h"
#include "train/planning/network_time.h"
#include "train/planning/processors.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {
namespace {

using plan::MeasuredPlacement;

// Of a layer whose time has a fixed part, two numbers of samples tell it. Batch normalization needs
// two samples.
std::int64_t other_samples(std::int64_t samples) {
  const std::int64_t fewer = std::max<std::int64_t>(2, samples / 4);
  return fewer < samples ? fewer : 2 * samples;
}

// The partition that has most of the divided layers.
int largest_partition(const plan::TrainingCost& cost, int partitions) {
  std::vector<double> weights(static_cast<std::size_t>(partitions), 0);
  for (std::size_t layer = cost.head; layer < cost.layers.size(); ++layer) {
    const plan::LayerCost& own = cost.layers[layer];
    double bytes = 0;
    for (const plan::GradientSize& gradient : own.gradients) bytes += gradient.bytes;
    for (std::size_t p = 0; p < own.parts.size() && p < weights.size(); ++p)
      weights[p] += bytes * static_cast<double>(own.parts[p]) / static_cast<double>(own.units);
  }
  // The first of those that are even.
  return static_cast<int>(std::max_element(weights.begin(), weights.end()) - weights.begin());
}

class Measurement {
 public:
  Measurement(const comm::World& world, const PlacementProblem& problem, int repetitions)
      : world_(world),
        problem_(problem),
        compute_(problem.recipe, world.local_rank()),
        cost_(training_cost(problem)),
        repetitions_(repetitions) {
    measured_.model = problem.recipe.model.name;
    measured_.machine.source = "measured";
    if (compute_.device().is_cpu())
      measured_.process_bytes = static_cast<double>(resident_memory());
    const plan::Processor processor = measure_processor(world);
    measured_.machine.processor_share = processor.share;
    measured_.processor_period_s = processor.period_s;
    // A clock of the wall would count what others do, too; where several threads compute, waiting
    // for each other is a part of it.
    const int threads = at::get_num_threads();
    if (problem.recipe.device == "cpu" && (threads == 1 || measured_.machine.processor_share < 1))
      watch_ = Stopwatch(threads);
    if (!compute_.device().is_cuda()) return;
    // A GPU doesn't compute on the cores that ranks share, and the clock has seen what waits for
    // those.
    measured_.machine.processor_share = 1;
    measured_.processor_period_s = 0;
    watch_ = Stopwatch(0, [] { torch::cuda::synchronize(); });
  }

  MeasuredPlacement run();

 private:
  bool divisible() const { return cost_.head < cost_.layers.size(); }
  void whole();
  void time_trunk(model::StagedNetwork& trunk, std::int64_t samples);
  void parts(int partitions);
  void time_loss(std::int64_t samples);
  void time_head(const SplitNetwork& network, std::int64_t samples, bool several);
  void time_update(torch::nn::Module& network);
  void time_copies();
  void finish();
  torch::Tensor input(std::int64_t samples, const model::Shape& shape) const;
  model::Tensors inputs(std::int64_t samples) const;
  void add(const std::string& layer, plan::PassTime time);

  const comm::World& world_;
  const PlacementProblem& problem_;
  Compute compute_;
  plan::TrainingCost cost_;
  int repetitions_;
  Stopwatch watch_;
  MeasuredPlacement measured_;
  bool loss_known_ = true;  // on this rank
};

torch::Tensor Measurement::input(std::int64_t samples, const model::Shape& shape) const {
  std::vector<std::int64_t> extents{samples};
  extents.insert(extents.end(), shape.begin(), shape.end());
  const bool wide = problem_.recipe.precision == "float64";
  const torch::Tensor values =
      torch::rand(extents, wide ? torch::kDouble : torch::kFloat).to(compute_.device());
  const bool image = shape.size() == 3 && compute_.layout() == data::Layout::channels_last;
  return image ? values.contiguous(at::MemoryFormat::ChannelsLast) : values;
}

// Of the type and shape that the task gives the network, where it can make samples up: numbers of
// words, for example, are none between 0 and 1.
model::Tensors Measurement::inputs(std::int64_t samples) const {
  model::Tensors made;
  TaskBatch blank;
  if (problem_.task != nullptr) blank = problem_.task->blank(samples, compute_);
  if (blank.tensors.empty()) {
    for (const model::Shape& shape : problem_.inputs) made.push_back(input(samples, shape));
    return made;
  }
  for (const torch::Tensor& tensor : problem_.task->inputs(blank)) {
    made.push_back(tensor.is_floating_point() ? input(tensor.size(0), tensor.sizes().slice(1).vec())
                                              : tensor);
  }
  return made;
}

void Measurement::add(const std::string& layer, plan::PassTime time) {
  auto known = std::find_if(measured_.layers.begin(), measured_.layers.end(),
                            [&](const auto& one) { return one.name == layer; });
  if (known == measured_.layers.end()) {
    measured_.layers.push_back({layer, {}});
    known = measured_.layers.end() - 1;
  }
  known->times.push_back(time);
}

// On one rank: all of it, and an update.
void Measurement::whole() {
  const std::int64_t samples = problem_.samples_per_rank;
  std::shared_ptr<SplitNetwork> split;
  std::shared_ptr<model::StagedNetwork> trunk;
  const auto seed = static_cast<std::uint64_t>(problem_.recipe.seed);
  if (divisible()) {
    PlacementRecipe even = problem_.recipe.placement;
    for (PlacementRule& rule : even.layers) rule.parts.clear();  // there is one part
    split = std::make_shared<SplitNetwork>(problem_.network, problem_.inputs, even, seed, 0, 1);
    trunk = split->shared_trunk();
    split->move_head(compute_.device(), input(1, {1}).scalar_type());
  } else {
    trunk = std::make_shared<model::StagedNetwork>(problem_.network, seed);
  }
  compute_.place(*trunk);
  trunk->train();
  for (const std::int64_t count : {samples, other_samples(samples)}) {
    time_trunk(*trunk, count);
    if (split != nullptr) time_head(*split, count, /*several=*/false);
    time_loss(count);
  }
  if (split == nullptr) return time_update(*trunk);
  time_update(*split);
}

void Measurement::time_trunk(model::StagedNetwork& trunk, std::int64_t samples) {
  const model::Tensors made = inputs(samples);
  NetworkTime time;
  {
    const Autocast autocast = compute_.autocast();
    time = time_network(trunk, made, repetitions_, watch_);
  }
  // Alone they take longer than within the network.
  LayerTime sum;
  for (const LayerTime& layer : time.layers) {
    sum.forward_s += layer.forward_s;
    sum.backward_s += layer.backward_s;
  }
  const double forward = sum.forward_s > 0 ? time.whole.forward_s / sum.forward_s : 1;
  const double backward = sum.backward_s > 0 ? time.whole.backward_s / sum.backward_s : 1;
  std::size_t next = 0;
  for (const auto& stage : trunk.stages()) {
    for (const model::Node& node : stage->spec().nodes) {
      const LayerTime& layer = time.layers[next++];
      add(node.name, {samples, 0, layer.forward_s * forward, layer.backward_s * backward});
    }
  }
}

// Of made-up samples, where the task can make some, and scores.
void Measurement::time_loss(std::int64_t samples) {
  if (problem_.task == nullptr) return;
  const TaskBatch batch = problem_.task->blank(samples, compute_);
  if (batch.tensors.empty()) return;
  TensorList scores;
  const auto shapes = shapes_of(problem_.network, problem_.inputs);
  for (const model::Shape& shape : shapes.back().outputs)
    scores.push_back(input(samples, shape).contiguous().set_requires_grad(true));
  const Autocast autocast = compute_.autocast();
  LayerTime time;
  try {
    time = time_pass(
        [&] { return training_loss(*problem_.task, problem_.network.auxiliary, scores, batch); },
        repetitions_, watch_);
  } catch (const std::exception&) {
    // A task of the user's need not know the loss of scores that are chance: it takes no time then.
    loss_known_ = false;
  }
  measured_.loss.push_back({samples, 0, time.forward_s, time.backward_s});
}

// `several`: passes add their gradients up.
void Measurement::time_head(const SplitNetwork& network, std::int64_t samples, bool several) {
  std::vector<std::shared_ptr<model::Stage>> stages;
  std::vector<torch::Tensor> inputs;
  for (const PartitionedLayer& layer : network.head()) {
    stages.push_back(layer.part);
    inputs.push_back(input(samples, {layer.inputs}));
    for (torch::Tensor& parameter : layer.part->parameters())
      parameter.mutable_grad() = torch::Tensor();
  }
  std::vector<std::size_t> numbers(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  const model::RandomScope scope(1, 1, numbers);
  const Autocast autocast = compute_.autocast();
  const std::vector<LayerTime> times =
      time_stages(stages, inputs, repetitions_, /*fresh_gradients=*/!several, watch_);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const PartitionedLayer& layer = network.head()[i];
    const std::int64_t units = layer.units[static_cast<std::size_t>(network.partition())];
    add(layer.name, {samples, units, times[i].forward_s, times[i].backward_s});
  }
}

// What one of so many has of the divided layers: a pass with a rank's samples, and one with those
// of all.
void Measurement::parts(int partitions) {
  const int largest = largest_partition(cost_, partitions);
  SplitNetwork split(problem_.network, problem_.inputs, problem_.recipe.placement,
                     static_cast<std::uint64_t>(problem_.recipe.seed), largest, partitions);
  split.move_head(compute_.device(), input(1, {1}).scalar_type());
  // Late gradients are those of one product over all passes.
  time_head(split, problem_.samples_per_rank, /*several=*/!cost_.late_gradients);
  time_head(split, problem_.samples_per_rank * partitions, /*several=*/false);
}

void Measurement::time_update(torch::nn::Module& network) {
  std::vector<parallel::NamedTensor> parameters = parallel::unique_parameters(network);
  double bytes = 0;
  for (parallel::NamedTensor& parameter : parameters) {
    bytes += static_cast<double>(parameter.tensor.nbytes());
    if (!parameter.tensor.grad().defined())
      parameter.tensor.mutable_grad() = torch::zeros_like(parameter.tensor);
  }
  NamedOptimizer optimizer(problem_.recipe.optimizer, std::move(parameters), problem_.optimizer);
  optimizer.set_learning_rate(0);
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions_; ++i) {
    watch_.restart();
    optimizer.step();
    if (i > 0) seconds.push_back(watch_.seconds());  // the first makes its state
  }
  measured_.update_s_per_byte = median(seconds) / bytes;
}

void Measurement::time_copies() {
  constexpr std::int64_t kValues = 2 << 20;
  // In another type where gradients travel in one.
  const torch::Tensor from = torch::ones({kValues});
  const torch::Tensor to =
      torch::zeros({kValues}, cost_.sent_part < 1 ? torch::kBFloat16 : torch::kFloat);
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions_; ++i) {
    watch_.restart();
    to.copy_(from);
    seconds.push_back(watch_.seconds());
  }
  measured_.copy_s_per_byte = median(seconds) / static_cast<double>(from.nbytes());
}

// What ranks have measured is not quite the same, and everybody has to plan with the same numbers.
void Measurement::finish() {
  // Chance may be what only some ranks could take the loss of.
  std::vector<double> known{loss_known_ ? 1.0 : 0.0};
  world_.communicator().allreduce(comm::buffer_of(known), comm::ReduceOp::min);
  if (known[0] == 0) measured_.loss.clear();
  std::vector<double*> all{&measured_.update_s_per_byte, &measured_.copy_s_per_byte,
                           &measured_.process_bytes};
  const auto note = [&all](std::vector<plan::PassTime>& times) {
    for (plan::PassTime& time : times) all.insert(all.end(), {&time.forward_s, &time.backward_s});
  };
  note(measured_.loss);
  for (MeasuredPlacement::Layer& layer : measured_.layers) note(layer.times);
  std::vector<double> values;
  for (const double* value : all) values.push_back(*value);
  world_.communicator().allreduce(comm::buffer_of(values), comm::ReduceOp::average);
  for (std::size_t i = 0; i < all.size(); ++i) *all[i] = values[i];
}

MeasuredPlacement Measurement::run() {
  world_.communicator().barrier();
  whole();
  std::vector<int> sizes = group_sizes(cost_, problem_.ranks);
  std::reverse(sizes.begin(), sizes.end());
  for (const int partitions : sizes) parts(partitions);
  time_copies();
  finish();
  double bytes = 0;
  for (const plan::LayerCost& layer : cost_.layers) {
    for (const plan::GradientSize& gradient : layer.gradients) bytes += gradient.bytes;
  }
  plan::set_update_times(measured_, bytes);
  plan::Machine& machine = measured_.machine;
  machine.model = measured_.model;
  machine.communication.kind = plan::CommunicationKind::unknown;
  if (world_.size() == 1) return measured_;
  measured_.network = measure_links(world_);
  machine.communication.kind = plan::CommunicationKind::ring;
  machine.communication.gradient_bytes = bytes;
  machine.communication.bandwidth_bytes_per_s = measured_.network.bandwidth_bytes_per_s;
  machine.communication.latency_s = measured_.network.latency_s;
  return measured_;
}

}  // namespace

MeasuredPlacement measure_placement(const comm::World& world, const PlacementProblem& problem,
                                    int repetitions) {
  return Measurement(world, problem, repetitions).run();
}

}  // namespace convoy::train
