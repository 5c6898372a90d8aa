// Trainings on grids of the first ranks of a job, compared with each other.
#pragma once

#include <mpi.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "convoy/comm/mpi.h"
#include "tests/train/steep_task.h"
#include "tests/train/trainer_fixture.h"
#include "train/diverged.h"

namespace convoy::train {

struct GridOf {
  int replicas = 1, partitions = 1;
  int ranks() const { return replicas * partitions; }
  std::string name() const { return std::to_string(replicas) + "x" + std::to_string(partitions); }
};

// Rules that go by norms of whole parameters, at rates at which a wrong one shows. Biases have no
// such norm, hence no such rate.
inline std::vector<std::vector<std::string>> layerwise_rules() {
  return {{"optimizer.name=lars", "optimizer.lr=20", "optimizer.weight_decay=0.01",
           "optimizer.groups=[{max_dims=1, lr_scale=0.005}]"},
          {"optimizer.name=lamb", "optimizer.momentum=0", "optimizer.lr=0.02",
           "optimizer.weight_decay=0.01"}};
}

class GridTest : public TrainerTest {
 protected:
  static int ranks() { return test_world().size(); }
  // Those of as many ranks as this job has; every test runs with each number.
  static std::vector<GridOf> grids() {
    std::vector<GridOf> all;
    for (const GridOf& grid :
         {GridOf{1, 1}, GridOf{1, 2}, GridOf{2, 1}, GridOf{1, 3}, GridOf{1, 4}, GridOf{2, 2},
          GridOf{1, 6}, GridOf{2, 3}, GridOf{2, 4}, GridOf{4, 2}, GridOf{1, 8}}) {
      if (grid.ranks() == ranks()) all.push_back(grid);
    }
    return all;
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
        int asked = 0;  // before the first update, and in each
        if (first() && stop_after > 0) options.should_stop = [&] { return ++asked > stop_after; };
        result = Trainer(world, registry_, r, options).run();
        world.close();
      }
      MPI_Comm_free(&some);
    }
    all().barrier();
    return result;
  }

  // Where training ends before an update, since its gradient is no number: on every rank.
  void expect_diverged(const Recipe& r) {
    const std::string said = refusal<Failure>(r);
    EXPECT_EQ(said.find(kDiverged + std::string("the norm of the gradient of step ")), 0u) << said;
    EXPECT_NE(said.find(", by the gradient of '"), std::string::npos) << said;
    all().barrier();
    const CheckpointFolder checkpoints(r.output.folder + "/checkpoints");
    for (const std::string& path : checkpoints.list()) {
      for (const auto& [name, tensor] : state_of(path).model)
        EXPECT_TRUE(torch::isfinite(tensor).all().template item<bool>()) << name;
    }
    all().barrier();
  }

  // Of each update.
  static std::vector<double> gradient_norms(const Recipe& r) {
    std::vector<double> norms;
    for (const auto& row : rows(r, "step")) norms.push_back(row.at("gradient_norm"));
    return norms;
  }
  void expect_norms(const Recipe& expected, const Recipe& got, double tolerance = 1e-9) {
    if (!first()) return;
    const std::vector<double> a = gradient_norms(expected), b = gradient_norms(got);
    ASSERT_EQ(a.size(), b.size()) << got.name;
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], tolerance * a[i]) << got.output.folder << " " << i;
  }

  // The largest difference of a parameter, as a part of the tensor's largest value.
  static double relative_difference(const std::string& a, const std::string& b) {
    const State x = state_of(a), y = state_of(b);
    EXPECT_EQ(x.model.size(), y.model.size());
    double most = 0;
    for (const auto& [name, tensor] : x.model) {
      const double largest = std::max(tensor.abs().max().item<double>(), 1e-3);
      const double difference = (tensor - y.model.at(name)).abs().max().item<double>();
      EXPECT_TRUE(std::isfinite(difference)) << name;
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

  // What a rule that goes by norms of whole parameters has gathered on a grid, of parts of them, is
  // what one rank goes on from, and the other way round. `whole` makes the recipe of a run without
  // a grid, `divided` of one on it.
  void expect_layerwise_rules_go_on(
      const std::function<Recipe(const std::string& name, const Overrides& how)>& whole,
      const std::function<Recipe(const std::string& name, const GridOf& grid,
                                 const Overrides& how)>& divided) {
    constexpr int kUpdates = 3;  // before it is stopped
    int number = 0;
    for (const Overrides& how : layerwise_rules()) {
      const std::string tag = std::to_string(number++);
      const RunResult serial = train_on(1, whole("serial" + tag, how));
      for (const GridOf& grid : grids()) {
        const std::string name = grid.name() + "-" + tag;
        train_on(grid.ranks(), divided(name, grid, how), kUpdates);
        expect_equal(serial, train_on(1, whole(name, how), 0, "latest"), name);
        train_on(ranks(), whole("back" + name, how), kUpdates);
        const Recipe back = divided("back" + name, grid, how);
        expect_equal(serial, train_on(grid.ranks(), back, 0, "latest"), "back" + name);
      }
    }
  }
};

inline std::vector<std::string> operator+(std::vector<std::string> a,
                                          const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace convoy::train
