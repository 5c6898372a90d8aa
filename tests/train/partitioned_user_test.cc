// Layers of the user's of which each rank computes a part.
#include "parallel/tensors.h"
#include "tests/model/user_layers.h"
#include "tests/train/partitioned_fixture.h"
#include "tests/train/planned_layer.h"
#include "train/strategies/partitioned/network.h"

namespace convoy::train {
namespace {

model::ModuleList own_list(std::int64_t reach = 1, bool wrong = false) {
  model::ModuleList list("Own", {1, 6, 6});
  model::Window second(4, 3, 3);
  if (wrong) second->fault = model::WindowImpl::Fault::shape;
  list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))
      .add("first", model::Window(4, 6, 6), model::window_statement(reach))
      .add("relu", torch::nn::ReLU())
      .add("pool", torch::nn::MaxPool2d(2))
      .add("second", second, model::window_statement())
      .add("flatten", torch::nn::Flatten())
      .add("square", model::Square(36), model::square_statement())
      .add("fc", torch::nn::Linear(36, 8));
  return list;
}

class PartitionedUserTest : public PartitionedTest {
 protected:
  void SetUp() override {
    PartitionedTest::SetUp();
    registry_.add_model("own",
                        [](const ModelRequest& request) {
                          return own_list(request.options.integer("reach"),
                                          request.options.flag("wrong"))
                              .blueprint();
                        },
                        {{"reach", std::int64_t{1}, "of windows, as it is stated"},
                         {"wrong", false, "parts of another shape"}});
    registry_.add_model("own network", [](const ModelRequest&) { return own_list().network(); });
  }
  const Overrides own_{"model.name=own"};
};

TEST_F(PartitionedUserTest, TrainAsInOneProcess) {
  const RunResult serial = train_on(1, net("serial", own_));
  for (const GridOf& grid : grids()) {
    int number = 0;
    for (const Overrides& how :
         {Overrides{"partitioned.check=false"}, Overrides{"partitioned.overlap=false"},
          Overrides{"partitioned.images=tiles"},
          Overrides{R"(placement.layers=[{layers=["first", "second"], how="units"}])"},
          Overrides{R"(placement.layers=[{layers=["square", "second"], how="whole"}])"}}) {
      const std::string name = grid.name() + "-" + std::to_string(number++);
      expect_equal(serial, train_on(grid.ranks(), partitioned(name, grid, own_ + how)),
                   name + " " + how.front());
    }
  }
}

// A network that is made of a list is data, too.
TEST_F(PartitionedUserTest, AListsNetworkIsDividedAsTheList) {
  const Overrides network{"model.name=own network"};
  const RunResult serial = train_on(1, net("serial", network));
  for (const GridOf& grid : grids()) {
    expect_equal(serial, train_on(grid.ranks(), partitioned(grid.name(), grid, network)),
                 grid.name());
  }
}

// Layers that the user has frozen stay so, whoever computes which part: parameters that aren't
// trained, and a normalization with statistics of its own.
TEST_F(PartitionedUserTest, WhatIsFrozenStaysFrozen) {
  const auto frozen_list = [](bool only_last) {
    model::ModuleList list("Frozen", {1, 6, 6});
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 4, 3).padding(1));
    torch::nn::BatchNorm2d norm(4);
    model::Window window(4, 6, 6);
    torch::nn::Linear first_fc(144, 12), second_fc(12, 9);
    conv->bias.set_requires_grad(false);
    norm->weight.set_requires_grad(false);
    norm->eval();
    window->bias.set_requires_grad(false);
    first_fc->weight.set_requires_grad(false);
    if (only_last) {
      for (const auto& p : conv->parameters()) p.set_requires_grad(false);
      for (const auto& p : norm->parameters()) p.set_requires_grad(false);
      for (const auto& p : window->parameters()) p.set_requires_grad(false);
      for (const auto& p : first_fc->parameters()) p.set_requires_grad(false);
    }
    list.add("conv", conv)
        .add("norm", norm)
        .add("window", window, model::window_statement())
        .add("flatten", torch::nn::Flatten())
        .add("fc1", first_fc)
        .add("relu", torch::nn::ReLU())
        .add("fc2", second_fc)
        .add("fc3", torch::nn::Linear(9, 8));
    return list;
  };
  registry_.add_model("frozen network",
                      [=](const ModelRequest& request) {
                        return frozen_list(request.options.flag("only_last")).network();
                      },
                      {{"only_last", false, "all that comes before fc2 is frozen"}});
  registry_.add_model("frozen",
                      [=](const ModelRequest& request) {
                        return frozen_list(request.options.flag("only_last")).blueprint();
                      },
                      {{"only_last", false, "all that comes before fc2 is frozen"}});
  for (const char* layers : {"model.options.only_last=false", "model.options.only_last=true"}) {
    const RunResult serial =
        train_on(1, net(std::string("serial") + layers, {"model.name=frozen network", layers}));
    for (const std::string model : {"frozen network", "frozen"}) {
      const Overrides own{"model.name=" + model, layers};
      const std::string tag = (model == "frozen" ? "data" : "list") + std::string(layers);
      expect_equal(serial, train_on(ranks(), net("sync" + tag, own)), "sync " + tag);
      for (const GridOf& grid : grids()) {
        expect_equal(serial, train_on(grid.ranks(), partitioned(grid.name() + tag, grid, own)),
                     "partitioned " + grid.name() + tag);
        const Overrides hybrid{"strategy=hybrid",
                               "grid.partitions=" + std::to_string(grid.partitions)};
        expect_equal(serial,
                     train_on(grid.ranks(), net("hybrid" + grid.name() + tag, own + hybrid)),
                     "hybrid " + grid.name() + tag);
      }
    }
  }
}

// Parts of two layers that share a tensor would have one each.
TEST_F(PartitionedUserTest, LayersThatShareTensorsAreRefused) {
  registry_.add_model("shared", [](const ModelRequest& request) {
    torch::nn::Linear fc(36, 36);
    model::ModuleList list("Shared", {1, 6, 6});
    list.add("flatten", torch::nn::Flatten())
        .add("first", fc)
        .add("relu", torch::nn::ReLU())
        .add("second", fc)
        .add("last", torch::nn::Linear(36, request.classes));
    return list.network();
  });
  const Overrides own{"model.name=shared"};
  expect_equal(train_on(1, net("serial", own)), train_on(ranks(), net("sync", own)), "sync");
  for (const char* strategy : {"partitioned", "hybrid"}) {
    const std::string said =
        refusal(net(strategy, own + Overrides{std::string("strategy=") + strategy}));
    EXPECT_EQ(said.find("layers 'first' and 'second' share 'first.weight'"), 0U) << said;
  }
}

TEST_F(PartitionedUserTest, CheckpointsOfPartsGoOnOnEveryGrid) {
  std::vector<std::pair<int, Overrides>> ways{{1, {"strategy=sync"}}, {ranks(), {"strategy=sync"}}};
  for (const GridOf& grid :
       {GridOf{1, 1}, GridOf{1, 2}, GridOf{1, 3}, GridOf{1, 4}, GridOf{2, 2}}) {
    if (grid.ranks() > ranks()) continue;
    ways.push_back(
        {grid.ranks(),
         {"strategy=partitioned", "grid.partitions=" + std::to_string(grid.partitions)}});
  }
  const Overrides common = own_ + Overrides{"optimizer.name=adam", "optimizer.momentum=0"};
  const RunResult serial = train_on(1, net("serial", common));
  for (std::size_t from = 0; from < ways.size(); ++from) {
    for (std::size_t to = 0; to < ways.size(); ++to) {
      // Others are tried by jobs of other sizes.
      if (from == to || std::max(ways[from].first, ways[to].first) < ranks()) continue;
      const std::string name = std::to_string(from) + "-" + std::to_string(to);
      train_on(ways[from].first, net(name, common + ways[from].second), 3);
      const RunResult end =
          train_on(ways[to].first, net(name, common + ways[to].second), 0, "latest");
      expect_equal(serial, end, name);
    }
  }
}

// Draws as many numbers as its input has.
class DrawingPartsImpl : public torch::nn::Cloneable<DrawingPartsImpl>, public model::PartModule {
 public:
  void reset() override {}
  torch::Tensor forward(const torch::Tensor& x) {
    return is_training() ? x * torch::rand(x.sizes(), x.options().requires_grad(false)) : x;
  }
  torch::Tensor forward_part(const torch::Tensor& x, const model::ModulePart&) override {
    return forward(x);
  }
};
TORCH_MODULE(DrawingParts);

// Notes what it draws.
class DrawingImpl : public torch::nn::Cloneable<DrawingImpl> {
 public:
  void reset() override {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) drawn = torch::rand({4}, torch::kDouble);
    return x.tanh();
  }
  static inline torch::Tensor drawn;
};
TORCH_MODULE(Drawing);

// Whatever parts before it draw.
TEST_F(PartitionedUserTest, WhatAllComputeDrawsAlike) {
  registry_.add_model("drawing", [](const ModelRequest& request) {
    model::Statement states;
    states.required = [](const model::Shape&, const Slice& output) { return output; };
    model::ModuleList list("Drawing", {1, 6, 6});
    list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))
        .add("parts", DrawingParts(), states)
        .add("whole", Drawing())
        .add("flatten", torch::nn::Flatten())
        .add("fc", torch::nn::Linear(144, request.classes));
    return list.blueprint();
  });
  std::string parts = "2";
  for (int p = 1; p < ranks(); ++p) parts += ",1";
  train(partitioned(
      "drawing", {1, ranks()},
      {"model.name=drawing", "training.epochs=0", "training.steps=2",
       R"(placement.layers=[{layers=["conv", "parts"], how="rows", parts=[)" + parts + "]}]"}));
  const torch::Tensor first_ones = DrawingImpl::drawn.clone();
  all().broadcast(parallel::buffer_of(first_ones), 0);
  EXPECT_TRUE(DrawingImpl::drawn.equal(first_ones)) << DrawingImpl::drawn << first_ones;
}

TEST_F(PartitionedUserTest, TheCheckNamesWhatIsStatedTooSmall) {
  for (const GridOf& grid : grids()) {
    const std::string said =
        refusal(partitioned(grid.name(), grid, own_ + Overrides{"model.options.reach=0"}));
    EXPECT_EQ(said.find("layer 'first': states that first["), 0U) << said;
    EXPECT_NE(said.find("but other elements change it"), std::string::npos) << said;
  }
}

TEST_F(PartitionedUserTest, TheCheckReportsWhatIsStatedTooLarge) {
  const RunResult serial = train_on(1, net("serial", own_));
  const Overrides more = own_ + Overrides{"model.options.reach=2"};
  for (const GridOf& grid : grids()) {
    for (const bool check : {false, true}) {
      const std::string name = grid.name() + (check ? "-checked" : "");
      testing::internal::CaptureStderr();
      const RunResult result = train(partitioned(
          name, grid, more + (check ? Overrides{} : Overrides{"partitioned.check=false"})));
      const std::string said = testing::internal::GetCapturedStderr();
      expect_equal(serial, result, name);
      const std::string expected =
          "warning: layer 'first' states more of its input than it reads: for first[:, 0:" +
          std::to_string(6 / grid.partitions) + ", :] of [4, 6, 6] partition 0 needs conv";
      const bool found = said.find(expected) != std::string::npos;
      EXPECT_EQ(found, check && first() && grid.partitions > 1 && grid.partitions < 4) << said;
    }
  }
}

TEST_F(PartitionedUserTest, TheCheckNamesPartsOfAnotherShape) {
  for (const GridOf& grid : grids()) {
    const std::string said =
        refusal(partitioned(grid.name(), grid, own_ + Overrides{"model.options.wrong=true"}));
    EXPECT_EQ(said.find("layer 'second', partition 0: forward_part gives [2, 4, "), 0U) << said;
  }
}

PlannedNetwork planned_over(const model::ModuleList& list, int partitions) {
  return {list.blueprint(), {.partitions = partitions}};
}

TEST(PartLayer, OfTheUsersHoldsItsPartAlone) {
  const PlannedNetwork planned = planned_over(own_list(), 4);
  const PartLayer first = planned.layer(1, 1), second = planned.layer(4, 3);
  const auto whole = planned.net.stages[1].nodes[0].module->module.ptr()->named_parameters();
  const auto held = first.module()->named_parameters();
  EXPECT_TRUE(held["gain"].equal(whole["gain"].slice(0, 2, 4)));
  EXPECT_TRUE(held["bias"].equal(whole["bias"]));
  EXPECT_EQ(first.parts(),
            (std::map<std::string, Slice>{{"first.gain", {"first.gain", {6, 6}, {2, 0}, {2, 6}}}}));
  // Three rows for four partitions: the last one has what all have, to sum their gradients.
  EXPECT_TRUE(second.empty());
  ASSERT_NE(second.module(), nullptr);
  EXPECT_EQ(second.module()->named_parameters().keys(), (std::vector<std::string>{"bias"}));
  EXPECT_EQ(second.parts().at("second.gain").elements(), 0);
  EXPECT_TRUE(planned.layer(1, 0).interior({"conv", {4, 6, 6}, {0, 0, 0}, {4, 2, 6}}).elements() >
              0);
}

TEST(PartLayer, OfTheUsersNamesPartitionAndShapes) {
  const PlannedNetwork planned = planned_over(own_list(1, true), 3);
  const PartLayer second = planned.layer(4, 1);
  const Slice box = second.required(second.output())[0];
  const torch::Tensor x = torch::zeros({5, 4, 3, 3});
  EXPECT_EQ(
      test::message_of<UsageError>([&] { second.compute({x}, {box}, second.output(), false); }),
      "layer 'second', partition 1: forward_part gives [5, 4, 0, 3] for second[:, 1:2, :] of "
      "[4, 3, 3] of 5 samples from input [4, 3, 3], and has to give [5, 4, 1, 3]");
}

// The whole would not fit where a network is divided for its size.
TEST(PartitionedNetwork, KeepsNoWholeModuleOfTheUsers) {
  std::vector<std::weak_ptr<torch::nn::Module>> wholes;
  std::optional<PartitionedNetwork> network;
  {
    const PlannedNetwork planned = planned_over(own_list(), 2);
    for (const model::StageSpec& stage : planned.net.stages) {
      const auto& module = stage.nodes[0].module;
      if (module != nullptr) wholes.push_back(module->module.ptr());
    }
    network.emplace(planned.net, planned.plan, 1, 0);
  }
  EXPECT_EQ(wholes.size(), 5U);
  for (const auto& whole : wholes) EXPECT_TRUE(whole.expired());
  EXPECT_EQ(network->named_parameters()["square.weight"].numel(), 18);
}

}  // namespace
}  // namespace convoy::train
