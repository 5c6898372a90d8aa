// Trainings of a network with convolutions and fully connected layers, on grids of the first ranks.
#pragma once

#include <mpi.h>

#include "convoy/comm/mpi.h"
#include "convoy/model/blueprint.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {

struct GridOf {
  int replicas = 1, partitions = 1;
  int ranks() const { return replicas * partitions; }
  std::string name() const { return std::to_string(replicas) + "x" + std::to_string(partitions); }
};

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

class HybridTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    add_network("net", hybrid_network);
  }

  // One that is made as hybrid_network is.
  void add_network(const std::string& name, model::Blueprint (*make)(const ModelRequest&)) {
    registry_.add_model(name, make,
                        {{"dropout", 0.0, "its probability"}, {"norm", false, "batch norm"}});
  }

  static int ranks() { return test_world().size(); }
  // Those of as many ranks as this job has; every test runs with each number.
  static std::vector<GridOf> grids() {
    std::vector<GridOf> all;
    for (const GridOf& grid : {GridOf{1, 1}, GridOf{1, 2}, GridOf{2, 1}, GridOf{1, 3}, GridOf{1, 4},
                               GridOf{2, 2}, GridOf{2, 4}, GridOf{4, 2}, GridOf{1, 8}}) {
      if (grid.ranks() == ranks()) all.push_back(grid);
    }
    return all;
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

  // On the first ranks of this job; the others wait. Its result, on the first rank.
  RunResult train_on(int ranks, const Recipe& r, int stop_after = 0,
                     const std::string& resume = "") {
    const bool takes_part = test_world().rank() < ranks;
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, test_world().rank(), &some);
    RunResult result;
    if (takes_part) {
      {
        World world = comm::adopt(some);
        TrainerOptions options;
        options.resume = resume;
        options.progress = false;
        int asked = 0;
        if (first() && stop_after > 0) options.should_stop = [&] { return ++asked >= stop_after; };
        result = Trainer(world, registry_, r, options).run();
        world.close();
      }
      MPI_Comm_free(&some);
    }
    all().barrier();
    return result;
  }

  // The largest difference of a parameter, as a part of the tensor's largest value.
  static double relative_difference(const std::string& a, const std::string& b) {
    const State x = state_of(a), y = state_of(b);
    EXPECT_EQ(x.model.size(), y.model.size());
    double most = 0;
    for (const auto& [name, tensor] : x.model) {
      const double largest = std::max(tensor.abs().max().item<double>(), 1e-3);
      const double difference = (tensor - y.model.at(name)).abs().max().item<double>();
      most = std::max(most, difference / largest);
    }
    return most;
  }

  void expect_equal(const RunResult& expected, const RunResult& got, const std::string& what,
                    double tolerance = 1e-9) {
    if (!first()) return;
    EXPECT_EQ(expected.steps, got.steps) << what;
    EXPECT_NEAR(expected.loss, got.loss, tolerance * std::abs(expected.loss)) << what;
    EXPECT_LT(relative_difference(expected.checkpoint, got.checkpoint), tolerance) << what;
    ASSERT_TRUE(expected.evaluation && got.evaluation) << what;
    EXPECT_EQ(expected.evaluation->samples, got.evaluation->samples) << what;
    EXPECT_EQ(expected.evaluation->at("top1"), got.evaluation->at("top1")) << what;
    EXPECT_NEAR(expected.evaluation->at("loss"), got.evaluation->at("loss"), tolerance) << what;
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

inline std::vector<std::string> operator+(std::vector<std::string> a,
                                          const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace convoy::train
