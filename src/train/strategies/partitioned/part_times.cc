#include "train/strategies/partitioned/part_times.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/cpu_quota.h"
#include "base/median.h"
#include "convoy/base/error.h"
#include "convoy/model/randomness.h"
#include "train/planning/stopwatch.h"

namespace convoy::train {
namespace {

using torch::Tensor;

constexpr int kWarmUps = 2;
constexpr int kStretches = 5;
constexpr double kStretchSeconds = 0.05;
constexpr int kPeriods = 5;  // of a quota, in a stretch

class PartTimes {
 public:
  explicit PartTimes(const TimedNetwork& timed)
      : timed_(timed),
        plan_(timed.network.plan()),
        partition_(static_cast<std::size_t>(timed.partition)),
        seconds_(plan_.nodes.size()) {
    timed_.network.train();
    const bool cuda = timed.compute.device().is_cuda();
    if (cuda) settle_ = [] { torch::cuda::synchronize(); };
    const Tensor like = timed.compute.blank({1, 1, 1});
    values_ = torch::rand({most_values()}, like.options().requires_grad(false));
    numbers_.resize(static_cast<std::size_t>(timed.rows));
    std::iota(numbers_.begin(), numbers_.end(), std::size_t{0});
  }

  // By node. A quota lets a rank compute for a part of each of its periods: what it gets on the
  // whole is told by many of them, and how that is divided among layers by times without pauses.
  std::vector<double> run() {
    for (int i = 0; i < kWarmUps; ++i) round();
    for (std::vector<double>& all : seconds_) all.clear();
    const double least = std::max(kStretchSeconds, kPeriods * cgroup_cpu_limit().period_s);
    std::vector<double> rounds;
    for (int i = 0; i < kStretches; ++i) {
      const Stopwatch watch(0, settle_);
      double count = 0;
      do {
        round();
        ++count;
      } while (watch.seconds() < least);
      rounds.push_back(watch.seconds() / count);
    }
    std::vector<double> layers;
    double sum = 0;
    for (const std::vector<double>& all : seconds_) {
      layers.push_back(all.empty() ? 0 : median(all));
      sum += layers.back();
    }
    for (double& layer : layers) layer *= sum > 0 ? median(rounds) / sum : 0;
    return layers;
  }

 private:
  const PartLayer& layer(std::size_t node) const { return timed_.network.layers()[node]; }
  const Slice& required(std::size_t node, std::size_t input) const {
    return plan_.nodes[node].required[input][partition_];
  }

  std::int64_t most_values() const {
    std::int64_t most = 0;
    for (std::size_t n = 0; n < plan_.nodes.size(); ++n) {
      for (std::size_t i = 0; i < plan_.nodes[n].inputs.size(); ++i)
        most = std::max(most, required(n, i).elements());
    }
    return most * timed_.rows;
  }

  // What a layer reads of an input. All of them lie in the same memory.
  Tensor input(std::size_t node, std::size_t i) const {
    const std::size_t value = plan_.nodes[node].inputs[i];
    std::vector<std::int64_t> sizes = required(node, i).size;
    sizes.insert(sizes.begin(), timed_.rows);
    if (plan_.values[value].input && !timed_.blanks[value].is_floating_point())
      return torch::zeros(sizes, timed_.blanks[value].options());
    const bool last = sizes.size() == 4 && timed_.compute.layout() == data::Layout::channels_last;
    if (last) std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
    const Tensor flat = values_.narrow(0, 0, required(node, i).elements() * timed_.rows);
    const Tensor all = last ? flat.view(sizes).permute({0, 3, 1, 2}) : flat.view(sizes);
    return all.detach().set_requires_grad(plan_.values[value].trained);
  }

  Tensor forward(std::size_t node, const model::Tensors& inputs,
                 const std::vector<Slice>& boxes) const {
    const Autocast autocast = timed_.compute.autocast();
    const PartLayer& own = layer(node);
    const bool normalizes = std::holds_alternative<model::layer::BatchNorm>(own.node().kind);
    if (normalizes && own.module() != nullptr) return own.normalize(inputs[0], boxes[0]);
    return own.compute(inputs, boxes, own.output(), /*in_place=*/false);
  }

  void pass(std::size_t node) const {
    model::Tensors inputs, leaves;
    std::vector<Slice> boxes;
    for (std::size_t i = 0; i < plan_.nodes[node].inputs.size(); ++i) {
      inputs.push_back(input(node, i));
      boxes.push_back(required(node, i));
      if (inputs.back().requires_grad()) leaves.push_back(inputs.back());
    }
    if (const auto& module = layer(node).module()) {
      for (const Tensor& parameter : module->parameters()) {
        if (parameter.requires_grad()) leaves.push_back(parameter);
      }
    }
    const Tensor output = forward(node, inputs, boxes);
    if (leaves.empty() || !output.requires_grad()) return;
    torch::autograd::grad({output}, leaves, {torch::ones_like(output)}, std::nullopt,
                          /*create_graph=*/false, /*allow_unused=*/true);
  }

  void round() {
    const model::RandomScope scope(1, 1, numbers_);
    for (std::size_t n = 0; n < plan_.nodes.size(); ++n) {
      if (layer(n).empty()) continue;
      const Stopwatch watch(0, settle_);
      try {
        pass(n);
      } catch (const c10::Error& error) {
        const std::string text = error.what_without_backtrace();
        throw UsageError("layer '" + layer(n).node().name +
                         "' can't be run on made-up values, as partitioned.balance = \"time\" "
                         "does: choose \"macs\". LibTorch says: " +
                         text.substr(0, text.find('\n')));
      }
      seconds_[n].push_back(watch.seconds());
    }
  }

  const TimedNetwork& timed_;
  const model::PartitionPlan& plan_;
  std::size_t partition_;
  std::function<void()> settle_;
  Tensor values_;
  std::vector<std::size_t> numbers_;  // of the samples
  std::vector<std::vector<double>> seconds_;
};

}  // namespace

std::vector<std::vector<double>> time_parts(const comm::World& world, const TimedNetwork& timed) {
  const model::PartitionPlan& plan = timed.network.plan();
  const auto partitions = static_cast<std::size_t>(plan.partitions);
  world.communicator().barrier();
  const std::vector<double> own = PartTimes(timed).run();
  std::vector<double> all(plan.nodes.size() * partitions, 0);
  for (std::size_t n = 0; n < own.size(); ++n)
    all[n * partitions + static_cast<std::size_t>(timed.partition)] = own[n];
  world.communicator().allreduce(comm::buffer_of(all), comm::ReduceOp::max);
  std::vector<std::vector<double>> seconds;
  for (auto row = all.begin(); row != all.end(); row += static_cast<std::ptrdiff_t>(partitions))
    seconds.emplace_back(row, row + static_cast<std::ptrdiff_t>(partitions));
  return seconds;
}

}  // namespace convoy::train
