// Times of layers, of updates, and of what ranks reach each other through.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/cpu_quota.h"
#include "base/median.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/model/randomness.h"
#include "convoy/train/compute.h"
#include "convoy/train/layout.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/planning.h"
#include "train/planning/links.h"
#include "train/planning/network_time.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {
namespace {

using plan::MeasuredPlacement;

// What the first of so many partitions has, where hybrid can divide the network so.
std::shared_ptr<SplitNetwork> try_to_split(const PlacementProblem& problem, int partitions) {
  try {
    return std::make_shared<SplitNetwork>(problem.network, problem.inputs, problem.recipe.placement,
                                          static_cast<std::uint64_t>(problem.recipe.seed), 0,
                                          partitions);
  } catch (const UsageError&) {
    return nullptr;
  }
}

// Of what a rank's threads could compute, if all of those of its host do: a quota and cores that
// are shared leave less. The least of all ranks.
double processor_share(const comm::World& world) {
  std::string cores;
  for (const int core : usable_cores()) cores += std::to_string(core) + ",";
  const std::string own = std::to_string(at::get_num_threads()) + ":" + cores;
  std::set<std::string> usable;
  double threads = 0;
  const std::vector<std::string> all = world.communicator().gather_text(own);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.host(rank) != world.host(world.rank())) continue;
    const std::string& text = all[static_cast<std::size_t>(rank)];
    const std::size_t colon = text.find(':');
    threads += std::stod(text.substr(0, colon));
    for (std::size_t at = colon + 1, comma; (comma = text.find(',', at)) != text.npos;
         at = comma + 1)
      usable.insert(text.substr(at, comma - at));
  }
  double there = static_cast<double>(usable.size());
  if (const double quota = cgroup_cpu_quota(); quota > 0) there = std::min(there, quota);
  std::vector<double> share{std::min(1.0, there / threads)};
  world.communicator().allreduce(comm::buffer_of(share), comm::ReduceOp::min);
  return share[0];
}

class Measurement {
 public:
  Measurement(const comm::World& world, const PlacementProblem& problem, int repetitions)
      : world_(world), problem_(problem), compute_(problem.recipe), repetitions_(repetitions) {
    measured_.model = problem.recipe.model.name;
    measured_.machine.source = "measured";
    measured_.machine.processor_share = processor_share(world);
    // A clock of the wall would count what others do, too; where several threads compute, waiting
    // for each other is a part of it.
    const int threads = at::get_num_threads();
    if (problem.recipe.device == "cpu" && (threads == 1 || measured_.machine.processor_share < 1))
      watch_ = Stopwatch(threads);
  }

  MeasuredPlacement run();

 private:
  void whole();
  void parts(int partitions);
  void time_head(const SplitNetwork& network, std::int64_t samples, bool several);
  void time_update(torch::nn::Module& network);
  void time_copies();
  void finish();
  torch::Tensor input(std::int64_t samples, const model::Shape& shape) const;
  void add(const std::string& layer, plan::PassTime time);

  const comm::World& world_;
  const PlacementProblem& problem_;
  Compute compute_;
  int repetitions_;
  Stopwatch watch_;
  MeasuredPlacement measured_;
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

void Measurement::add(const std::string& layer, plan::PassTime time) {
  auto known = std::find_if(measured_.layers.begin(), measured_.layers.end(),
                            [&](const auto& one) { return one.name == layer; });
  if (known == measured_.layers.end()) {
    measured_.layers.push_back({layer, {}});
    known = measured_.layers.end() - 1;
  }
  known->times.push_back(time);
}

// On one rank: all of it with a rank's samples, and an update.
void Measurement::whole() {
  const std::int64_t samples = problem_.samples_per_rank;
  const auto split = try_to_split(problem_, 1);
  std::shared_ptr<model::StagedNetwork> trunk;
  if (split != nullptr) {
    trunk = split->shared_trunk();
    split->move_head(compute_.device(), input(1, {1}).scalar_type());
  } else {
    trunk = std::make_shared<model::StagedNetwork>(
        problem_.network, static_cast<std::uint64_t>(problem_.recipe.seed));
  }
  compute_.place(*trunk);
  trunk->train();
  model::Tensors inputs;
  for (const model::Shape& shape : problem_.inputs) inputs.push_back(input(samples, shape));
  NetworkTime time;
  {
    const Autocast autocast = compute_.autocast();
    time = time_network(*trunk, inputs, repetitions_, watch_);
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
  for (const auto& stage : trunk->stages()) {
    for (const model::Node& node : stage->spec().nodes) {
      const LayerTime& layer = time.layers[next++];
      add(node.name, {samples, 0, layer.forward_s * forward, layer.backward_s * backward});
    }
  }
  if (split == nullptr) return time_update(*trunk);
  time_head(*split, samples, /*several=*/false);
  time_update(*split);
}

// Several passes add their gradients up.
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
    add(layer.name, {samples, layer.units.front(), times[i].forward_s, times[i].backward_s});
  }
}

// What one of so many has of the divided layers: a pass with a rank's samples, and one with those
// of all.
void Measurement::parts(int partitions) {
  const auto split = try_to_split(problem_, partitions);
  if (split == nullptr) return;
  split->move_head(compute_.device(), input(1, {1}).scalar_type());
  time_head(*split, problem_.samples_per_rank, /*several=*/true);
  time_head(*split, problem_.samples_per_rank * partitions, /*several=*/false);
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
  const torch::Tensor from = torch::ones({kValues}), to = torch::zeros({kValues});
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions_; ++i) {
    watch_.restart();
    to.copy_(from);
    seconds.push_back(watch_.seconds());
  }
  measured_.copy_s_per_byte = median(seconds) / static_cast<double>(to.nbytes());
}

// What ranks have measured is not quite the same, and everybody has to plan with the same numbers.
void Measurement::finish() {
  std::vector<double> all{measured_.update_s_per_byte, measured_.copy_s_per_byte};
  for (const MeasuredPlacement::Layer& layer : measured_.layers) {
    for (const plan::PassTime& time : layer.times)
      all.insert(all.end(), {time.forward_s, time.backward_s});
  }
  world_.communicator().allreduce(comm::buffer_of(all), comm::ReduceOp::average);
  auto next = all.begin();
  measured_.update_s_per_byte = *next++;
  measured_.copy_s_per_byte = *next++;
  for (MeasuredPlacement::Layer& layer : measured_.layers) {
    for (plan::PassTime& time : layer.times) {
      time.forward_s = *next++;
      time.backward_s = *next++;
    }
  }
}

MeasuredPlacement Measurement::run() {
  world_.communicator().barrier();
  whole();
  for (int partitions = 2; partitions <= problem_.ranks; ++partitions) {
    if (problem_.ranks % partitions == 0) parts(partitions);
  }
  time_copies();
  finish();
  const plan::TrainingCost cost = training_cost(problem_);
  double bytes = 0, seconds = 0;
  for (const plan::LayerCost& layer : cost.layers) {
    for (const plan::GradientSize& gradient : layer.gradients) bytes += gradient.bytes;
  }
  for (const MeasuredPlacement::Layer& layer : measured_.layers)
    seconds += layer.times.front().forward_s + layer.times.front().backward_s;
  plan::Machine& machine = measured_.machine;
  machine.seconds_per_sample = (seconds + bytes * measured_.update_s_per_byte) /
                               static_cast<double>(problem_.samples_per_rank);
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
