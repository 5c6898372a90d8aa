// Ranks that share a network train what one process does where replicas have single samples, or
// such as count nothing, and where samples count differently; or they refuse before they train.
#include <vector>

#include "convoy/model/dropout.h"
#include "tests/model/user_layers.h"
#include "tests/train/partitioned_fixture.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

// Samples count 0.5 or 2, and some nothing.
class WeightedTask final : public Classification {
 public:
  explicit WeightedTask(const Recipe& r)
      : Classification(r), counted_(static_cast<std::size_t>(r.task.options.integer("counted"))) {}
  double weight(const data::Batch& batch, data::Range rows) const override {
    double sum = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i) sum += weight_of(batch.samples[i]);
    return sum;
  }
  TaskBatch tensors(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override {
    TaskBatch own = Classification::tensors(batch, rows, compute);
    own.weight = weight(batch, rows);
    return own;
  }
  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override {
    const torch::Tensor weights = weights_of(batch).to(outputs.at(0).options());
    const torch::Tensor each = torch::cross_entropy_loss(outputs.at(0), batch.tensors.at("labels"),
                                                         {}, at::Reduction::None);
    return (each * weights).sum() / weights.sum();
  }
  torch::Tensor divided_targets(const TaskBatch& batch) const override {
    return batch.tensors.at("labels");
  }
  PartLoss divided_loss(const torch::Tensor& outputs, const torch::Tensor& labels,
                        const torch::Tensor& factors, const OutputPart& part) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor powers = outputs.detach().exp();
    const torch::Tensor sum = part.reduce(powers.sum(1), comm::ReduceOp::sum);
    const torch::Tensor units = torch::arange(part.begin, part.begin + part.size);
    const torch::Tensor wanted = labels.unsqueeze(1).eq(units).to(torch::kDouble);
    const torch::Tensor each = factors.unsqueeze(1);
    PartLoss loss;
    loss.gradient = (powers / sum.unsqueeze(1) - wanted) * each;
    loss.value = ((sum.log().unsqueeze(1) - outputs.detach()) * wanted * each).sum().item<double>();
    return loss;
  }

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    return torch::cross_entropy_loss(scores, labels);
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override {
    return scores.softmax(1);
  }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }
  double weight_of(std::size_t sample) const {
    return sample >= counted_ ? 0 : sample % 3 == 0 ? 2 : 0.5;
  }
  torch::Tensor weights_of(const TaskBatch& batch) const {
    std::vector<double> all;
    for (const std::size_t sample : batch.samples) all.push_back(weight_of(sample));
    return torch::tensor(all, torch::kDouble);
  }

  std::size_t counted_;
};

// Drops units by the samples' numbers, within a module.
class DroppingImpl : public torch::nn::Cloneable<DroppingImpl> {
 public:
  DroppingImpl() { DroppingImpl::reset(); }
  void reset() override { drop_ = register_module("drop", model::Dropout(0.5)); }
  torch::Tensor forward(const torch::Tensor& x) { return drop_(x).tanh(); }

 protected:
  model::Dropout drop_{nullptr};
};
TORCH_MODULE(Dropping);
class DroppingPartsImpl : public DroppingImpl, public model::PartModule {
 public:
  torch::Tensor forward_part(const torch::Tensor& x, const model::ModulePart&) override {
    return forward(x);
  }
};
TORCH_MODULE(DroppingParts);

model::Blueprint dropping_network(const ModelRequest& request) {
  model::ModuleList list("Dropping", {1, 6, 6});
  list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
  if (request.options.flag("parts")) {
    model::Statement states;
    states.required = [](const model::Shape&, const Slice& output) { return output; };
    list.add("dropping", DroppingParts(), states);
  } else {
    list.add("dropping", Dropping());
  }
  list.add("flatten", torch::nn::Flatten()).add("fc", torch::nn::Linear(144, request.classes));
  return list.blueprint();
}

// A batch norm over one position, and one behind a fully connected layer of images.
model::Blueprint positions_network(const ModelRequest& request) {
  using namespace model::layer;
  const auto node = plain_node;
  model::Blueprint net{"Positions", {{1, 6, 6}}, {}};
  const Convolution small{.in = 1, .out = 4, .kernel = {3, 3}, .padding = {1, 1}};
  net.stages.push_back(
      {"image",
       {"x"},
       {node("conv", small, {"x"}), node("mix", Linear{.in = 6, .out = 8}, {"conv"}),
        node("mix_bn", BatchNorm{.channels = 4}, {"mix"}), node("relu", Relu{}, {"mix_bn"}),
        node("all", Convolution{.in = 4, .out = 7, .kernel = {6, 8}}, {"relu"}),
        node("all_bn", BatchNorm{.channels = 7}, {"all"})},
       {"all_bn"}});
  net.stages.push_back({"head",
                        {"x"},
                        {node("flatten", Flatten{}, {"x"}),
                         node("fc", Linear{.in = 7, .out = request.classes}, {"flatten"})},
                        {"fc"}});
  return net;
}

class PartitionedEdgesTest : public PartitionedTest {
 protected:
  void SetUp() override {
    PartitionedTest::SetUp();
    registry_.add_task(
        "weighted", [](const Recipe& r) { return std::make_unique<WeightedTask>(r); },
        {{"label_smoothing", 0.0, ""},
         {"counted", std::int64_t{1000}, "the first samples, which count something"}});
    registry_.add_model("positions", positions_network);
    registry_.add_model("dropping", dropping_network,
                        {{"parts", false, "a module that computes parts"}});
  }
};

// Normalized over one position of one sample of each replica, and over columns that partitions
// divide.
TEST_F(PartitionedEdgesTest, OneRowPerReplica) {
  for (const GridOf& grid :
       {GridOf{1, ranks()}, GridOf{ranks(), 1}, GridOf{2, ranks() == 4 ? 2 : 0}}) {
    if (grid.partitions == 0) continue;
    const int batch = grid.replicas == 1 ? 5 : grid.replicas;
    const Overrides how{"model.name=positions", "data.drop_last=true", "training.epochs=0",
                        "training.steps=4", "training.batch=" + std::to_string(batch)};
    const RunResult serial = train_on(1, net("serial" + grid.name(), how));
    expect_equal(
        serial,
        train_on(ranks(), partitioned("all" + grid.name(), grid,
                                      how + Overrides{"partitioned.batch_norm=synchronized"})),
        grid.name(), 1e-7);
    if (grid.replicas == 1) continue;
    const Recipe own = partitioned("own" + grid.name(), grid, how);
    if (grid.partitions == 1) {  // all of them go to as many ranks as have enough, as in sync
      expect_equal(train_on(ranks(), net("sync" + grid.name(), how)), train_on(ranks(), own),
                   grid.name(), 1e-7);
      continue;
    }
    EXPECT_NE(refusal(own).find("leaves a replica with one alone"), std::string::npos);
  }
}

TEST_F(PartitionedEdgesTest, DropoutInsideModules) {
  const Overrides how{"model.name=dropping", "training.epochs=0", "training.steps=3"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    expect_equal(serial, train_on(ranks(), partitioned(grid.name(), grid, how)), grid.name());
    const Overrides divided{"strategy=hybrid",
                            "grid.partitions=" + std::to_string(grid.partitions)};
    expect_equal(serial, train_on(ranks(), net("hybrid" + grid.name(), how + divided)),
                 "hybrid" + grid.name());
    if (grid.partitions == 1) continue;
    const std::string said = refusal(
        partitioned("parts" + grid.name(), grid, how + Overrides{"model.options.parts=true"}));
    EXPECT_EQ(said.find("layer 'dropping' is divided by 'rows', and drops units by their place in "
                        "the whole ('dropping.drop')"),
              0U)
        << said;
  }
}

TEST_F(PartitionedEdgesTest, SamplesThatCountDifferently) {
  const Overrides how{"task.name=weighted", "task.options.counted=50"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids())
    expect_equal(serial, train_on(ranks(), partitioned(grid.name(), grid, how)), grid.name());
}

// One that takes no part would keep the others waiting, or is no sample that can't be used.
TEST_F(PartitionedEdgesTest, ReplicasOfNothingThatCounts) {
  const GridOf grid{ranks(), 1};
  const Overrides how{"model.name=branched",     "model.options.norm=true",
                      "task.name=weighted",      "data.drop_last=true",
                      "task.options.counted=30", "training.epochs=0",
                      "training.steps=8",        "training.batch=" + std::to_string(ranks())};
  const std::string said =
      refusal(partitioned("all", grid, how + Overrides{"partitioned.batch_norm=synchronized"}));
  EXPECT_NE(said.find("every replica takes part in every step; the task weighted says that no "
                      "sample of replica "),
            std::string::npos)
      << said;
  EXPECT_NE(said.find(" counts anything in this one: set partitioned.batch_norm = \"local\""),
            std::string::npos)
      << said;
  const RunResult sync = train_on(ranks(), net("sync", how + Overrides{"strategy=sync"}));
  testing::internal::CaptureStderr();
  const RunResult result = train_on(ranks(), partitioned("own", grid, how));
  const std::string log = testing::internal::GetCapturedStderr();
  expect_equal(sync, result, "local");
  EXPECT_EQ(log.find("it is left out"), std::string::npos) << log;
}

}  // namespace
}  // namespace convoy::train
