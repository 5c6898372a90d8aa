// A strategy of one's own: some stages of the network on each partition (half of them on each of
// two), of any number of replicas. The first partition reads the samples, the others are handed
// them, the last one for their labels.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/model/randomness.h"
#include "convoy/model/stage.h"
#include "convoy/parallel/clip.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/registry.h"

namespace convoy::train::testing_data {

class Halves : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override {
    grid_.emplace(
        world.communicator(),
        parallel::GridShape::of(recipe.grid.replicas, recipe.grid.partitions, world.size()));
    return {.share = grid_->replica(),
            .shares = grid_->shape().replicas,
            .samples = first() ? Arrangement::Samples::read : Arrangement::Samples::handed,
            .group = grid_->partitions()};
  }

  void build(const NetworkSource& source) override {
    auto whole = source.blueprint();
    if (!whole) throw UsageError("halves needs a network that is data");
    parameters_ = cost_of(*whole, whole->inputs).parameters;
    const auto parts = static_cast<std::size_t>(grid_->shape().partitions);
    const auto part = static_cast<std::size_t>(grid_->partition());
    const std::size_t stages = whole->stages.size();
    if (parts > stages) throw UsageError("halves needs a stage for each partition");
    const std::size_t begin = stages * part / parts, end = stages * (part + 1) / parts;
    network_ = std::make_shared<model::StagedNetwork>(some_stages(*whole, begin, end - begin),
                                                      source.seed());
    source.compute().place(*network_);
    for (const auto& name : network_->named_parameters().keys()) names_.push_back(name);
    for (const auto& name : network_->named_buffers().keys()) names_.push_back(name);
  }
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return parameters_; }

  void prepare(TrainerContext& context, const State* saved) override {
    context_ = &context;
    if (saved != nullptr) load(*saved, "the checkpoint");
    model_.emplace(grid_->replicas(), network_);
    optimizer_.emplace(context.make_optimizer(parallel::unique_parameters(*network_)));
    if (saved != nullptr) optimizer_->load(*saved);
  }
  std::optional<Slice> wanted(const Slice& whole) override {
    if (std::find(names_.begin(), names_.end(), whole.tensor) == names_.end()) return std::nullopt;
    return whole;
  }

  void run() override {
    while (true) {
      const data::Batch* batch = context_->samples().next();
      if (batch == nullptr) continue;
      StepReport report;
      report.learning_rate = context_->schedule().at(context_->moment());
      optimizer_->set_learning_rate(report.learning_rate);
      optimizer_->zero_grad();
      double loss = 0;
      const bool update =
          batch->size() > 0 ? step(*batch, loss) : model_->reducer().join_with_zeros();
      if (update) {
        if (context_->recipe().training.clip_norm > 0) clip();
        optimizer_->step();
      }
      share(loss, *batch, report);
      if (!context_->updated(report)) return;
    }
  }

  State state() override {
    State state;
    describe_module(*network_, state);
    optimizer_->save(state);
    return state;
  }

  TensorList forward(const TensorList& inputs) override {
    torch::Tensor scores = pass(inputs);
    broadcast(scores, last_partition());
    return {scores};
  }
  bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
             const UseOutputs& use) override {
    if (batch.size() == 0) return last();
    const TaskBatch rows = task.tensors(batch, {0, batch.size()}, compute);
    const torch::Tensor scores = pass(task.inputs(rows));
    if (!last()) return false;
    use({scores}, rows);
    return true;
  }

 private:
  bool first() const { return grid_->partition() == 0; }

  int last_partition() const { return grid_->shape().partitions - 1; }
  bool last() const { return grid_->partition() == last_partition(); }

  // What comes out at the end, on the last partition.
  torch::Tensor pass(const TensorList& inputs) {
    torch::Tensor tensor = inputs.at(0);
    for (int p = 0; p <= last_partition(); ++p) {
      if (p == grid_->partition()) tensor = network_->run(model::Tensors{tensor}).at(0);
      if (p < last_partition()) broadcast(tensor, p);
    }
    return tensor;
  }

  bool step(const data::Batch& batch, double& loss) {
    const Task& task = context_->task();
    const TaskBatch rows = task.tensors(batch, {0, batch.size()}, context_->compute());
    const model::RandomScope scope(static_cast<std::uint64_t>(context_->recipe().seed),
                                   static_cast<std::uint64_t>(context_->moment().step),
                                   rows.samples);
    model_->run(rows.weight, [&](model::StagedNetwork& network) {
      torch::Tensor in = task.inputs(rows).at(0), out, gradient;
      for (int p = 0; p <= last_partition(); ++p) {
        torch::Tensor moved;
        if (p == grid_->partition()) {
          out = network.run(model::Tensors{in}).at(0);
          moved = out.detach().clone();
        }
        if (p == last_partition()) break;
        broadcast(moved, p);
        if (p + 1 == grid_->partition()) in = moved.requires_grad_();
      }
      for (int p = last_partition(); p >= 0; --p) {
        if (p == grid_->partition()) {
          if (last()) {
            const torch::Tensor value = task.loss({out}, rows);
            loss = value.item<double>();
            value.backward();
          } else {
            out.backward(gradient);
          }
          gradient = in.grad();
        }
        if (p > 0) broadcast(gradient, p);
      }
    });
    return true;
  }

  void clip() {
    std::vector<at::Tensor> own;
    for (const auto& p : parallel::unique_parameters(*network_)) own.push_back(p.tensor);
    parallel::clip_grad_norm(grid_->partitions(), own, {}, context_->recipe().training.clip_norm);
  }

  // The tensor of one partition, on both.
  void broadcast(torch::Tensor& tensor, int from) {
    std::array<std::int64_t, 6> shape{};
    if (grid_->partition() == from) {
      tensor = tensor.contiguous();
      shape[0] = tensor.dim();
      for (std::int64_t d = 0; d < tensor.dim(); ++d)
        shape[static_cast<std::size_t>(d) + 1] = tensor.size(d);
      shape[5] = static_cast<std::int64_t>(tensor.scalar_type());
    }
    grid_->partitions().broadcast(comm::buffer_of(shape), from);
    if (grid_->partition() != from) {
      tensor = torch::empty(at::IntArrayRef(shape.data() + 1, static_cast<std::size_t>(shape[0])),
                            static_cast<at::ScalarType>(shape[5]));
    }
    grid_->partitions().broadcast(
        comm::Buffer(tensor.mutable_data_ptr(),
                     static_cast<std::size_t>(tensor.numel()) * tensor.element_size(),
                     comm::Type::u8),
        from);
  }

  void share(double loss, const data::Batch& batch, StepReport& report) {
    const std::uint32_t requests = context_->requests();
    const double weight =
        !last() || batch.size() == 0 ? 0 : context_->task().weight(batch, {0, batch.size()});
    std::array<double, 6> sums{loss * weight,
                               weight,
                               last() ? static_cast<double>(batch.size()) : 0,
                               static_cast<double>(context_->samples().statistics().skipped),
                               (requests & kStop) != 0 ? 1.0 : 0.0,
                               (requests & kCheckpoint) != 0 ? 1.0 : 0.0};
    grid_->all().allreduce(comm::buffer_of(sums), comm::ReduceOp::sum);
    report.weight = sums[1];
    report.loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
    report.samples = static_cast<std::uint64_t>(sums[2]);
    report.skipped = static_cast<std::uint64_t>(sums[3]);
    report.requests = (sums[4] > 0 ? kStop : 0u) | (sums[5] > 0 ? kCheckpoint : 0u);
  }

  std::optional<parallel::Grid> grid_;
  std::shared_ptr<model::StagedNetwork> network_;
  std::vector<std::string> names_;
  std::int64_t parameters_ = 0;
  TrainerContext* context_ = nullptr;
  std::optional<parallel::DistributedModel<model::StagedNetwork>> model_;
  std::optional<NamedOptimizer> optimizer_;
};

// Whose author has forgotten that its ranks infer together.
class ForgetfulHalves final : public Halves {
 public:
  bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
             const UseOutputs& use) override {
    return Strategy::infer(task, compute, batch, use);
  }
};

inline void add_halves(Registry& registry) {
  const auto check = [](const Recipe& recipe, std::vector<std::string>& problems) {
    if (recipe.grid.partitions > 4) problems.push_back("halves has at most 4 partitions");
  };
  registry.add_strategy(
      "halves", [] { return std::make_unique<Halves>(); }, {}, check);
  registry.add_strategy(
      "forgetful", [] { return std::make_unique<ForgetfulHalves>(); }, {}, check);
  // Small's layers, as data, or with a stage more for each of four partitions.
  registry.add_model(
      "chain",
      [](const ModelRequest& request) {
        using namespace model::layer;
        const Dropout drop{.probability = request.options.number("dropout")};
        const Convolution conv{.in = 1, .out = 4, .kernel = {3, 3}};
        model::Blueprint chain{"chain", {{1, 6, 6}}, {}};
        chain.stages.push_back(
            {"conv",
             {"x"},
             {{"conv", conv, {"x"}, nullptr}, {"relu", Relu{}, {"conv"}, nullptr}},
             {"relu"}});
        std::int64_t values = 64;
        if (request.options.integer("hidden") > 0) {
          for (const std::string name : {"fc1", "fc2"}) {
            const std::int64_t out = request.options.integer("hidden");
            chain.stages.push_back(
                {name,
                 {"x"},
                 {{name + "_flatten", Flatten{}, {"x"}, nullptr},
                  {name, Linear{.in = values, .out = out}, {name + "_flatten"}, nullptr},
                  {name + "_relu", Relu{}, {name}, nullptr}},
                 {name + "_relu"}});
            values = out;
          }
        }
        chain.stages.push_back(
            {"fc",
             {"x"},
             {{"flatten", Flatten{}, {"x"}, nullptr},
              {"drop", drop, {"flatten"}, nullptr},
              {"fc", Linear{.in = values, .out = request.classes}, {"drop"}, nullptr}},
             {"fc"}});
        return chain;
      },
      {{"dropout", 0.0, "its probability"},
       {"hidden", std::int64_t{0}, "units of each of two more layers"}});
}

}  // namespace convoy::train::testing_data
