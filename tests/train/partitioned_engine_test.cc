// Ranks that share networks of more kinds train what one process does: residual ones, made-up ones,
// with several inputs and outputs, with normalizations inside modules of the user's.
#include <algorithm>

#include "tests/base/effort.h"
#include "tests/model/made_up_network.h"
#include "tests/model/user_layers.h"
#include "tests/train/made_up_modules.h"
#include "tests/train/partitioned_fixture.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

// Bytes of images that tell the class by their mean.
class Pictures final : public data::Dataset {
 public:
  Pictures(std::size_t size, data::Shape shape) : shape_(shape), pixels_(size) {
    for (std::size_t i = 0; i < size; ++i) {
      RandomStream random(5, i);
      for (std::size_t p = 0; p < shape.elements(); ++p) {
        pixels_[i].push_back(
            static_cast<std::byte>(random.below(120) + 60 * static_cast<std::uint64_t>(label(i))));
      }
    }
  }
  std::size_t size() const override { return pixels_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override {
    return {pixels_[i], data::Encoding::planar_u8, shape_, label(i)};
  }
  std::string key(std::size_t i) const override { return "pictures[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return size(); }

 private:
  data::Shape shape_;
  std::vector<std::vector<std::byte>> pixels_;
  std::vector<std::string> classes_{"dark", "gray", "light"};
};

class SoftmaxLike : public Classification {
 public:
  using Classification::Classification;

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    return torch::cross_entropy_loss(scores, labels);
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override { return scores; }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }
};

// A second input, of the first six pixels, and a loss of several outputs, one of which is that
// input.
class SeveralTask final : public SoftmaxLike {
 public:
  using SoftmaxLike::SoftmaxLike;
  TensorList inputs(const TaskBatch& batch) const override {
    const torch::Tensor& images = batch.tensors.at("images");
    return {images, images.flatten(1).narrow(1, 0, 6)};
  }
  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override {
    return torch::cross_entropy_loss(outputs.at(0), batch.tensors.at("labels")) +
           (outputs.at(1).tanh() * outputs.at(2)).sum(1).mean() + outputs.at(3).square().mean();
  }
};

// Images that are smaller in evaluation.
class SmallerTask final : public SoftmaxLike {
 public:
  using SoftmaxLike::SoftmaxLike;
  TensorList inputs(const TaskBatch& batch) const override {
    const torch::Tensor& images = batch.tensors.at("images");
    return {torch::GradMode::is_enabled() ? images : images.narrow(2, 1, images.size(2) - 1)};
  }
};

model::Blueprint several_network(const ModelRequest& request) {
  using namespace model::layer;
  const auto node = plain_node;
  model::Blueprint net{"Several", {{1, 6, 6}, {6}}, {}};
  net.stages.push_back(
      {"first",
       {"image", "vector"},
       {node("conv", Convolution{.in = 1, .out = 3, .kernel = {3, 3}, .padding = {1, 1}},
             {"image"}),
        node("fc", Linear{.in = 6, .out = 6}, {"vector"})},
       {"conv", "fc", "vector"}});
  net.stages.push_back(
      {"second",
       {"a", "b", "c"},
       {node("relu", Relu{}, {"a"}), node("pool", MaxPool{.kernel = {3, 3}}, {"relu"}),
        node("flatten", Flatten{}, {"pool"}),
        node("scores", Linear{.in = 12, .out = request.classes}, {"flatten"}),
        node("sigmoid", Sigmoid{}, {"b"}), node("others", Linear{.in = 6, .out = 7}, {"sigmoid"})},
       {"scores", "b", "c", "others"}});
  return net;
}

// x + a normalization of it.
class NormedImpl : public torch::nn::Cloneable<NormedImpl> {
 public:
  explicit NormedImpl(std::int64_t channels) : channels_(channels) { NormedImpl::reset(); }
  void reset() override { norm_ = register_module("norm", torch::nn::BatchNorm2d(channels_)); }
  torch::Tensor forward(const torch::Tensor& x) { return x + norm_(x); }

 protected:
  std::int64_t channels_;
  torch::nn::BatchNorm2d norm_{nullptr};
};
TORCH_MODULE(Normed);
// Of single numbers, which a batch of one can't be normalized by.
class NormedUnitsImpl : public torch::nn::Cloneable<NormedUnitsImpl> {
 public:
  explicit NormedUnitsImpl(std::int64_t units) : units_(units) { NormedUnitsImpl::reset(); }
  void reset() override { norm_ = register_module("norm", torch::nn::BatchNorm1d(units_)); }
  torch::Tensor forward(const torch::Tensor& x) { return norm_(x); }

 private:
  std::int64_t units_;
  torch::nn::BatchNorm1d norm_{nullptr};
};
TORCH_MODULE(NormedUnits);
class NormedPartsImpl : public torch::nn::Cloneable<NormedPartsImpl>, public model::PartModule {
 public:
  explicit NormedPartsImpl(std::int64_t channels) : channels_(channels) {
    NormedPartsImpl::reset();
  }
  void reset() override { norm_ = register_module("norm", torch::nn::BatchNorm2d(channels_)); }
  torch::Tensor forward(const torch::Tensor& x) { return norm_(x); }
  torch::Tensor forward_part(const torch::Tensor& x, const model::ModulePart&) override {
    return norm_(x);
  }

 private:
  std::int64_t channels_;
  torch::nn::BatchNorm2d norm_{nullptr};
};
TORCH_MODULE(NormedParts);

model::Blueprint normed_network(const ModelRequest& request) {
  const bool units = request.options.flag("units"), parts = request.options.flag("parts");
  model::ModuleList list("Normed", {1, 6, 6});
  list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
  if (parts) {
    model::Statement states;
    states.required = [](const model::Shape&, const Slice& output) { return output; };
    list.add("normed", NormedParts(4), states);
  } else {
    list.add("normed", Normed(4));
  }
  list.add("relu", torch::nn::ReLU())
      .add("pool", torch::nn::MaxPool2d(2))
      .add("flatten", torch::nn::Flatten());
  if (units) list.add("units", NormedUnits(36));
  list.add("fc", torch::nn::Linear(36, request.classes));
  return list.blueprint();
}

class PartitionedEngineTest : public PartitionedTest {
 protected:
  void SetUp() override {
    PartitionedTest::SetUp();
    registry_.add_model("several", several_network);
    registry_.add_task("several", [](const Recipe& r) { return std::make_unique<SeveralTask>(r); },
                       {{"label_smoothing", 0.0, ""}});
    registry_.add_task("smaller", [](const Recipe& r) { return std::make_unique<SmallerTask>(r); },
                       {{"label_smoothing", 0.0, ""}});
    registry_.add_model("normed", normed_network,
                        {{"units", false, "normalization of single numbers"},
                         {"parts", false, "a module that computes parts"}});
    registry_.add_model("made-up",
                        [](const ModelRequest& request) {
                          return made_up(request.options.integer("number"),
                                         static_cast<int>(request.options.integer("partitions")))
                              .net;
                        },
                        {{"number", std::int64_t{1}, "which one"},
                         {"partitions", std::int64_t{1}, "that its rules are for"}});
    registry_.add_reader("pictures",
                         [](const Options& o) {
                           const int side = static_cast<int>(o.integer("side"));
                           return std::make_shared<Pictures>(
                               static_cast<std::size_t>(o.integer("size")),
                               data::Shape{static_cast<int>(o.integer("channels")), side, side});
                         },
                         {{"size", std::int64_t{12}, "samples"},
                          {"channels", std::int64_t{3}, "of them"},
                          {"side", std::int64_t{40}, "rows and columns"}});
  }

  // The same on every rank, weights of modules included.
  static model::MadeUp made_up(std::int64_t number, int partitions) {
    torch::manual_seed(static_cast<std::uint64_t>(number));
    return model::MadeUp(static_cast<unsigned>(number), {.partitions = partitions,
                                                         .image = {1, 6, 6},
                                                         .classes = 8,
                                                         .only_layers = true,
                                                         .module = testing_data::made_up_module});
  }
  // The same rules in words.
  static Overrides overrides_of(const model::PartitionRules& rules) {
    std::string layers;
    for (const auto& [name, division] : rules.layers) {
      std::string parts;
      for (const double part : division.parts)
        parts += (parts.empty() ? "" : ", ") + std::to_string(part);
      layers += (layers.empty() ? "" : ", ") + (R"({layers=[")" + name + R"("], how=")") +
                text_of(division.how) + "\"" + (parts.empty() ? "" : ", parts=[" + parts + "]") +
                "}";
    }
    const bool tiles = rules.images.how == model::Division::tiles;
    Overrides all{tiles ? "partitioned.images=tiles" : "partitioned.images=rows"};
    if (!layers.empty()) all.push_back("placement.layers=[" + layers + "]");
    return all;
  }
};

// Layers of all kinds, modules of the user's and such as are derived from known ones among them, in
// divisions made up as well. Sums of float64 in another order: a normalization of few values that
// are close together makes more of it.
TEST_F(PartitionedEngineTest, MadeUpNetworks) {
  const bool all = test::all_cases();
  if (ranks() == 4 && !all) GTEST_SKIP() << "fewer ranks do";
  for (std::int64_t number = 1; number <= (all ? 100 : 12); ++number) {
    const GridOf grid = ranks() == 4 && number % 2 == 0 ? GridOf{2, 2} : GridOf{1, ranks()};
    const Overrides how{"model.name=made-up",
                        "model.options.number=" + std::to_string(number),
                        "model.options.partitions=" + std::to_string(grid.partitions),
                        "data.drop_last=true",
                        "training.epochs=0",
                        "training.steps=3"};
    const std::string name = std::to_string(number);
    SCOPED_TRACE("made-up " + name);
    const RunResult serial = train_on(1, net("serial" + name, how));
    const model::PartitionRules rules = made_up(number, grid.partitions).rules;
    const Overrides divided =
        how + overrides_of(rules) + Overrides{"partitioned.batch_norm=synchronized"};
    expect_equal(serial, train_on(ranks(), partitioned(name, grid, divided)), "made-up " + name,
                 1e-6);
  }
}

TEST_F(PartitionedEngineTest, ResNet18ByRows) {
  if (ranks() == 4) GTEST_SKIP() << "fewer ranks do";
  const Overrides how{"model.name=resnet18",    "data.reader=pictures", "data.train.size=8",
                      "data.validation.size=4", "training.batch=4",     "training.epochs=0",
                      "training.steps=2",       "optimizer.lr=0.01",    "optimizer.momentum=0",
                      "model.classes=5"};
  const RunResult serial = train_on(1, net("serial", how));
  expect_equal(serial, train_on(ranks(), partitioned("rows", {1, ranks()}, how)), "rows", 1e-7);
}

TEST_F(PartitionedEngineTest, SeveralInputsAndOutputs) {
  const Overrides how{"model.name=several", "task.name=several"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    expect_equal(serial, train_on(grid.ranks(), partitioned(grid.name(), grid, how)), grid.name());
  }
}

TEST_F(PartitionedEngineTest, TenCrops) {
  const Overrides how{
      "model.name=branched",      "data.reader=pictures",   "data.train.size=24",
      "data.validation.size=7",   "data.train.channels=1",  "data.validation.channels=1",
      "data.train.side=8",        "data.validation.side=8", "data.size=6",
      "data.augment.crop=center", "data.evaluate.crop=ten", "data.evaluate.resize=8",
      "evaluation.batch=3"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids())
    expect_equal(serial, train_on(grid.ranks(), partitioned(grid.name(), grid, how)), grid.name());
}

// As those of layers: over a replica's batch, or over that of all.
TEST_F(PartitionedEngineTest, NormalizationsInsideModules) {
  const Overrides how{"model.name=normed", "data.drop_last=true", "training.epochs=0",
                      "training.steps=3"};
  for (const char* parts : {"model.options.parts=false", "model.options.parts=true"}) {
    const Overrides of_parts = how + Overrides{parts};
    const RunResult serial = train_on(1, net(std::string("serial") + parts, of_parts));
    const RunResult local =
        train_on(ranks(), net(std::string("local") + parts, of_parts + Overrides{"strategy=sync"}));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + parts;
      const bool divided = grid.partitions > 1 && std::string(parts).ends_with("true");
      const Overrides all =
          of_parts + (divided ? Overrides{R"(placement.layers=[{layers=["normed"], how="whole"}])"}
                              : Overrides{});
      expect_equal(
          serial,
          train_on(ranks(), partitioned("all" + name, grid,
                                        all + Overrides{"partitioned.batch_norm=synchronized"})),
          name);
      const RunResult own = train_on(ranks(), partitioned("own" + name, grid, all));
      if (grid.replicas == 1) expect_equal(serial, own, name);
      if (grid.partitions == 1) expect_equal(local, own, name);
    }
  }
}

TEST_F(PartitionedEngineTest, NormalizationsOfPartsAreRefused) {
  for (const GridOf& grid : grids()) {
    if (grid.partitions == 1) continue;
    EXPECT_EQ(
        refusal(partitioned(grid.name(), grid, {"model.name=normed", "model.options.parts=true"})),
        "layer 'normed' is divided by 'rows', and normalizes over the batch "
        "('normed.norm'), which takes statistics of the whole: let it be \"whole\" in "
        "[[placement.layers]], or make the normalization a layer of its own");
  }
}

// The last batch has one sample, which nobody can be trained on.
TEST_F(PartitionedEngineTest, ModulesThatNeedTwoSamples) {
  const Overrides how{"model.name=normed", "model.options.units=true", "schedule.name=constant"};
  const RunResult serial = train_on(1, net("serial", how + Overrides{"data.drop_last=true"}));
  for (const GridOf& grid : grids()) {
    if (grid.replicas > 1) continue;
    const RunResult result =
        train_on(ranks(), partitioned(grid.name(), grid, how + Overrides{"data.drop_last=true"}));
    if (first()) EXPECT_LT(relative_difference(serial.checkpoint, result.checkpoint), 1e-9);
    const std::string said = refusal(partitioned("last" + grid.name(), grid, how));
    EXPECT_NE(said.find("a batch of 1 sample comes up"), std::string::npos) << said;
  }
}

// All regions follow from the inputs' sizes.
TEST_F(PartitionedEngineTest, InputsOfOtherSizesAreRefused) {
  const GridOf grid{1, ranks()};
  EXPECT_EQ(refusal(partitioned("trained", grid, {"model.name=branched", "task.name=smaller"})),
            "the network is divided for inputs of [1, 6, 6], and can't take [1, 5, 6]: make them "
            "as large (data.size), or use it whole, with --set strategy=sync");
}

}  // namespace
}  // namespace convoy::train
