// Downpour jobs of a small network in this process: an evaluator and replicas on threads.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/train/downpour.h"
#include "convoy/train/downpour_roles.h"
#include "convoy/train/trainer.h"
#include "tests/base/patience.h"
#include "tests/train/downpour_fake.h"
#include "tests/train/server_job_fixture.h"

namespace convoy::train {

// 60 samples in batches of 12.
inline const std::string kDownpourRecipe = R"(
name = "job"
strategy = "downpour"
threads = 1
)" + kServerJobTables + R"(
[optimizer]
lr = 0.05
[training]
batch = 12
epochs = 2
[downpour]
replicas = 2
shards = 2
)";

class DownpourTest : public ServerJobTest {
 protected:
  void SetUp() override { testing_data::add_small_world(registry_, calls_); }

  Recipe recipe(const Overrides& more = {}) { return recipe_of(kDownpourRecipe, more); }
  std::string problems(const Overrides& more) {
    try {
      recipe(more);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  // What a thread throws fails the test.
  void on_thread(const std::function<void(comm::World&)>& body, int ranks = 1) {
    threads_.emplace_back([this, body, ranks] {
      try {
        comm::World::run_threads(ranks, body);
      } catch (const std::exception& error) {
        failed_ = true;
        ADD_FAILURE() << error.what();
        if (job_) testing_data::FakeService(*job_).end_job("a process failed");
      }
    });
  }

  // Waits until this is so, or the test has failed, or the time is over.
  template <typename Condition>
  void wait_until(const Condition& condition, double limit_s = test::patience_s()) const {
    const auto begin = Clock::now();
    while (!condition() && !failed_ && seconds_since(begin) < limit_s)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // No replica pushes before all of them have joined: one that gets no core for a while would find
  // that the others have done everything.
  void begin_together(testing_data::FakeJob& job, std::uint64_t replicas) const {
    job.before_push = [this, &job, replicas](std::uint64_t, std::uint64_t) {
      wait_until([&] { return job.clients() >= replicas || !job.ended().empty(); });
    };
  }
  // So many pushes, and then as many for each of the evaluator's cuts; others wait for a second:
  // however little of the machine the evaluator gets, it sees more of the training than its end.
  // No longer, since a cut may need what the replica pushes that waits.
  void wait_for_cuts(testing_data::FakeJob& job, std::uint64_t pushes) const {
    job.after_push = [this, &job, pushes,
                      count = std::make_shared<std::atomic<std::uint64_t>>(0)](std::uint64_t) {
      const std::uint64_t mine = ++*count;
      wait_until([&] { return mine <= pushes * (job.cuts() + 1) || !job.ended().empty(); }, 1);
    };
  }

  // A whole job. Results of replicas are in replicas_.
  RunResult run(const Recipe& recipe, TrainerOptions options = {}, const Manifest* from = nullptr) {
    job_ = std::make_unique<testing_data::FakeJob>(job_plan(recipe, from));
    if (on_job) on_job(*job_);
    options.progress = false;
    RunResult result;
    const int partitions = static_cast<int>(recipe.grid.partitions);
    on_thread(
        [&, options](comm::World& world) {
          const RunResult own =
              run_evaluator(world, registry_, recipe, testing_data::connect_to(*job_), options);
          if (world.rank() > 0) return;
          result = own;
          // Whoever starts the processes stops the others.
          testing_data::FakeService(*job_).end_job("its evaluator was told to stop");
        },
        partitions);
    const auto replicas = static_cast<std::size_t>(downpour_of(recipe).replicas);
    replicas_.assign(replicas, {});
    for (std::size_t r = 0; r < replicas; ++r) {
      on_thread(
          [&, r](comm::World& world) {
            const ReplicaResult own =
                run_replica(world, registry_, recipe, testing_data::connect_to(*job_));
            if (world.rank() == 0) replicas_[r] = own;
          },
          partitions);
    }
    join();
    return result;
  }

  // The same by one process, without servers.
  RunResult run_sync(const Recipe& recipe, TrainerOptions options = {}) {
    RunResult result;
    options.progress = false;
    on_thread([&, options](comm::World& world) {
      result = Trainer(world, registry_, recipe, options).run();
    });
    join();
    return result;
  }
  Recipe sync_recipe(Overrides more = {}) {
    more.insert(more.begin(), {"strategy=sync", "output.folder=\"" + scratch_.path() + "/sync\""});
    return recipe(more);
  }

  std::function<void(testing_data::FakeJob&)> on_job;
  std::shared_ptr<testing_data::Calls> calls_;  // none: replicas would share them
  std::unique_ptr<testing_data::FakeJob> job_;
  std::vector<ReplicaResult> replicas_;
  std::atomic<bool> failed_{false};
};

}  // namespace convoy::train
