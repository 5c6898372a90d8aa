// Checkpoints written on one grid, and training that goes on from them on another.
#include <mpi.h>

#include "convoy/comm/mpi.h"
#include "tests/train/halves.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

struct Shape {
  int replicas, partitions;
  int ranks() const { return replicas * partitions; }
  std::string name() const { return std::to_string(replicas) + "x" + std::to_string(partitions); }
};

constexpr int kStop = 7, kSteps = 18;  // in the middle of the second epoch

class GridResumeTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_halves(registry_);
  }
  // On the first ranks of this job; the others wait.
  void train_on(const Shape& shape, const std::string& run, int stop_after, bool resume) {
    const bool takes_part = test_world().rank() < shape.ranks();
    MPI_Comm ranks = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, test_world().rank(), &ranks);
    if (takes_part) {
      {
        World world = comm::adopt(ranks);
        const Recipe r =
            recipe(run, {"model.name=chain", "model.options.hidden=12", "model.options.dropout=0.5",
                         "grid.partitions=" + std::to_string(shape.partitions), "strategy=halves",
                         "output.log_samples=true", "evaluation.every_epochs=0"});
        TrainerOptions options;
        options.resume = resume ? "latest" : "";
        options.progress = false;
        int asked = 0;
        if (first() && stop_after > 0) options.should_stop = [&] { return ++asked >= stop_after; };
        const RunResult result = Trainer(world, registry_, r, options).run();
        EXPECT_EQ(result.stopped, stop_after > 0);
        EXPECT_EQ(result.steps, stop_after > 0 ? stop_after : kSteps);
        world.close();
      }
      MPI_Comm_free(&ranks);
    }
    all().barrier();
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    for (const auto& row : rows(recipe(run), "step")) losses.push_back(row["loss"]);
    return losses;
  }
};

// Every shape that the ranks of this job have room for.
TEST_F(GridResumeTest, WhatOneGridWroteAnotherGoesOnFrom) {
  std::vector<Shape> shapes;
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 1}, Shape{1, 2}, Shape{2, 2}, Shape{1, 4}}) {
    if (shape.ranks() <= test_world().size()) shapes.push_back(shape);
  }
  train_on({1, 1}, "serial", 0, false);
  for (const Shape& from : shapes) {
    train_on(from, from.name(), kStop, false);
    for (const Shape& to : shapes) {
      const std::string run = from.name() + "-" + to.name();
      if (first()) {
        std::filesystem::copy(folder_ + "/" + from.name(), folder_ + "/" + run,
                              std::filesystem::copy_options::recursive);
      }
      train_on(to, run, 0, true);
      if (!first()) continue;
      const auto expected = losses("serial"), got = losses(run);
      ASSERT_EQ(got.size(), static_cast<std::size_t>(kSteps)) << run;
      // In float64; sums over samples are taken in another order.
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-9) << run << ", update " << i + 1;
      expect_each_once(recipe(run), 3 * 61);
    }
  }
}

}  // namespace
}  // namespace convoy::train
