// Trainings of a network with convolutions and fully connected layers, on grids of the first ranks.
#pragma once

#include "convoy/model/blueprint.h"
#include "tests/train/grid_fixture.h"

namespace convoy::train {

// Stripes' images through a convolution and three fully connected layers of 11, 9 and `classes`
// units: no grid of more than one partition divides them all.
inline model::Blueprint hybrid_network(const ModelRequest& request) {
  using namespace model::layer;
  const Dropout drop{.probability = request.options.number("dropout")};
  const auto node = [](std::string name, Kind kind, std::string input) {
    return model::Node{std::move(name), std::move(kind), {std::move(input)}, nullptr};
  };
  model::Blueprint net{"Net", {{1, 6, 6}}, {}};
  model::StageSpec conv{
      "conv", {"x"}, {node("f.conv", Convolution{.in = 1, .out = 4, .kernel = {3, 3}}, "x")}, {}};
  if (request.options.flag("norm"))
    conv.nodes.push_back(node("f.bn", BatchNorm{.channels = 4}, conv.nodes.back().name));
  conv.nodes.push_back(node("f.relu", Relu{}, conv.nodes.back().name));
  conv.outputs = {"f.relu"};
  net.stages.push_back(conv);
  net.stages.push_back({"fc1",
                        {"x"},
                        {node("flatten", Flatten{}, "x"), node("c.0", drop, "flatten"),
                         node("c.1", Linear{.in = 64, .out = 11}, "c.0"),
                         node("c.2", Relu{}, "c.1"), node("c.3", drop, "c.2")},
                        {"c.3"}});
  net.stages.push_back({"fc2",
                        {"x"},
                        {node("c.4", Linear{.in = 11, .out = 9}, "x"), node("c.5", Relu{}, "c.4")},
                        {"c.5"}});
  net.stages.push_back(
      {"fc3", {"x"}, {node("c.6", Linear{.in = 9, .out = request.classes}, "x")}, {"c.6"}});
  return net;
}

class HybridTest : public GridTest {
 protected:
  void SetUp() override {
    GridTest::SetUp();
    add_network("net", hybrid_network);
  }

  // One that is made as hybrid_network is.
  void add_network(const std::string& name, model::Blueprint (*make)(const ModelRequest&)) {
    registry_.add_model(name, make,
                        {{"dropout", 0.0, "its probability"}, {"norm", false, "batch norm"}});
  }

  Recipe net(const std::string& name, Overrides overrides = {}) const {
    // 61 samples in batches of 12: six updates, and the last batch is one sample.
    overrides.insert(overrides.begin(), {"model.name=net", "model.classes=8", "training.epochs=1",
                                         "evaluation.every_epochs=0", "checkpoint.every_epochs=0"});
    return recipe(name, overrides);
  }
  Recipe hybrid(const std::string& name, const GridOf& grid, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(),
                     {"strategy=hybrid", "grid.partitions=" + std::to_string(grid.partitions)});
    return net(name, overrides);
  }
};

struct Scheme {
  std::string name;
  std::vector<std::string> overrides;
  int senders = 0, passes = 0;  // see plan_rounds
};
// With so many partitions.
inline std::vector<Scheme> schemes(int partitions) {
  std::vector<Scheme> all{{"a", {"hybrid.scheme=a"}, 0},
                          {"b", {"hybrid.scheme=b"}, 1},
                          {"c", {"hybrid.scheme=c"}, partitions},
                          // So many that some passes have none of a rank's samples.
                          {"c7", {"hybrid.scheme=c", "hybrid.passes=7"}, partitions, 7}};
  for (int m = 1; m <= partitions; ++m) {
    const std::string senders = std::to_string(m);
    all.push_back({"bc" + senders, {"hybrid.scheme=bc", "hybrid.senders=" + senders}, m});
  }
  return all;
}

}  // namespace convoy::train
