// Sandblaster jobs of a small network in this process: an evaluator and replicas on threads.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "convoy/train/sandblaster.h"
#include "convoy/train/sandblaster_roles.h"
#include "convoy/train/trainer.h"
#include "tests/train/sandblaster_fake.h"
#include "tests/train/server_job_fixture.h"

namespace convoy::train {

using testing_data::FakeBatchJob;

// 60 samples in 8 portions, of 8 and one of 4, computed 5 samples at a time.
inline const std::string kSandblasterRecipe = R"(
name = "job"
strategy = "sandblaster"
threads = 1
precision = "float64"
)" + kServerJobTables + R"(
[training]
batch = 5
steps = 6
[sandblaster]
portion = 8
replicas = 2
)";

class SandblasterTest : public ServerJobTest {
 protected:
  void SetUp() override { testing_data::add_small_world(registry_); }

  Recipe recipe(const Overrides& more = {}) { return recipe_of(kSandblasterRecipe, more); }

  // What a thread throws is kept, and ends the job.
  template <typename T>
  void on_thread(FakeBatchJob<T>& job, const std::function<void(comm::World&)>& body,
                 int ranks = 1) {
    threads_.emplace_back([this, &job, body, ranks] {
      try {
        comm::World::run_threads(ranks, body);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex_);
          if (error_.empty()) error_ = error.what();
        }
        job.end("a process failed");
      }
    });
  }

  struct Outcome {
    RunResult result;
    std::vector<BatchReplicaResult> replicas;
    std::string error;                   // of a process
    std::vector<std::string> evaluator;  // what ranks of the evaluator have thrown
  };
  // A whole job.
  template <typename T>
  Outcome run(FakeBatchJob<T>& job, const Recipe& recipe, std::function<bool()> stop = {},
              const std::string& resume = "") {
    Outcome outcome;
    TrainerOptions options;
    options.progress = false;
    options.overwrite = resume.empty();
    options.resume = resume;
    options.should_stop = std::move(stop);
    const int partitions = static_cast<int>(recipe.grid.partitions);
    on_thread<T>(
        job,
        [&, options](comm::World& world) {
          RunResult own;
          try {
            own = run_batch_evaluator(world, registry_, recipe, testing_data::connect_to(job),
                                      options);
          } catch (const std::exception& error) {
            const std::lock_guard lock(mutex_);
            outcome.evaluator.push_back(error.what());
            throw;
          }
          if (world.rank() > 0) return;
          outcome.result = own;
          job.end("its evaluator was told to stop");  // as who starts the processes
        },
        partitions);
    outcome.replicas.resize(static_cast<std::size_t>(sandblaster_of(recipe).replicas));
    for (BatchReplicaResult& replica : outcome.replicas) {
      on_thread<T>(
          job,
          [&](comm::World& world) {
            const BatchReplicaResult own =
                run_batch_replica(world, registry_, recipe, testing_data::connect_to(job), {});
            if (world.rank() == 0) replica = own;
          },
          partitions);
    }
    job.optimize();
    join();
    outcome.error = std::exchange(error_, "");
    return outcome;
  }

  std::mutex mutex_;
  std::string error_;
};

}  // namespace convoy::train
