// A batch optimization with its real coordinator, servers and replicas in one process, while each
// of them is killed: the same bits come of it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "convoy/base/error.h"
#include "convoy/server/client.h"
#include "tests/base/patience.h"
#include "tests/server/client/batch_job.h"
#include "tests/server/coordinator/other_answers.h"

namespace convoy::server {
namespace {

TEST(BatchEndToEnd, ComesToTheSameBitsWhateverDies) {
  nlohmann::json expected;
  {
    BatchJob job(0);
    job.start_replica(1);
    job.await([&] { return job.ended(); });
    expected = outcome_of(job);
    EXPECT_EQ(job.computed(), expected.at("evaluations").get<std::uint64_t>() * 24);
    // What goes through the coordinator are scalars, for 20,043 parameters.
    const std::uint64_t bytes = job.batch().at("method_bytes");
    EXPECT_GT(bytes, 1000u);
    EXPECT_LT(bytes / expected.at("evaluations").get<std::uint64_t>(), 20'000u);
  }
  EXPECT_GE(expected.at("iteration"), 5);
  EXPECT_LT(expected.at("gradient_norm"), 1);

  BatchJob job(3);
  for (int number : {1, 2, 3}) job.start_replica(number);
  job.await_iteration(1);
  job.kill_coordinator();
  job.start_coordinator();
  job.await_backups();
  job.await_iteration(2);
  job.kill_server(1);
  job.stop_replica(2);
  job.await_iteration(3);
  job.start_server(1);
  job.start_replica(4);
  job.kill_coordinator();
  job.start_coordinator();
  job.await([&] { return job.ended(); });
  EXPECT_EQ(outcome_of(job), expected);
}

// The step is too long then, and a shorter one is taken, whoever dies meanwhile.
TEST(BatchEndToEnd, ALossThatIsNoneLaterShortensTheStep) {
  const std::set<EvaluationId> none = {{1, 0}, {3, 0}, {3, 1}};
  nlohmann::json expected;
  {
    BatchJob job(0);
    job.none = none;
    job.start_replica(1);
    job.await([&] { return job.ended(); });
    expected = outcome_of(job);
  }
  EXPECT_GE(expected.at("iteration"), 5);
  EXPECT_LT(expected.at("gradient_norm"), 1);
  BatchJob job(3);
  job.none = none;
  for (int number : {1, 2, 3}) job.start_replica(number);
  for (const int iteration : {1, 2, 3}) {
    job.await_iteration(iteration);
    job.kill_coordinator();
    job.start_coordinator();
  }
  job.await([&] { return job.ended(); });
  EXPECT_EQ(outcome_of(job), expected);
}

// What a coordinator that is started again would find again is told to who runs it, and the job is
// not over by it.
TEST(BatchEndToEnd, AMistakeIsNoEnd) {
  BatchJob job(1);
  job.start_replica(1);
  job.await_iteration(2);
  job.kill_coordinator();
  coordinator::test::give_other_answers(job.coordinators_folder());
  job.start_coordinator();
  job.await([&] { return !job.mistake().empty(); });
  EXPECT_EQ(job.mistake().find("the optimization can't go on: answer 1 of 1 that are stored"), 0u)
      << job.mistake();
  EXPECT_FALSE(job.ended());
}

// Nobody has to wait for a coordinator that doesn't come back.
TEST(BatchEndToEnd, AnEvaluatorIsToldThatItCantGoOn) {
  BatchJob job(1);
  job.start_replica(1);
  Client client(job.client_options("evaluator", ClientRole::evaluator));
  BatchClient evaluator(client);
  job.await([&] { return evaluator.watch().state.iteration >= 2; });
  job.kill_coordinator();
  coordinator::test::give_other_answers(job.coordinators_folder());
  job.start_coordinator();
  std::string told;
  job.await([&] {
    try {
      evaluator.watch();
      return !job.mistake().empty();
    } catch (const UsageError& error) {
      told = error.what();
      return true;
    }
  });
  EXPECT_NE(told.find("the optimization can't go on: answer 1 of 1 that are stored"), told.npos)
      << told;
  job.await([&] { return !job.mistake().empty(); });
}

TEST(BatchEndToEnd, AnEvaluatorThatIsToldToStopWaitsForNoCoordinator) {
  BatchJob job(1);
  std::atomic<bool> stop = false;
  ClientOptions options = job.client_options("evaluator", ClientRole::evaluator);
  options.patience = convoy::test::patience();
  options.give_up = [&] { return stop.load(); };
  Client client(options);
  BatchClient evaluator(client);
  evaluator.watch();
  stop = true;
  evaluator.watch();  // it has something to save
  job.kill_coordinator();
  EXPECT_THROW(evaluator.watch(), GaveUp);
}

// A checkpoint is made while replicas go on, and another job on other shards comes from there to
// where this one does.
TEST(BatchEndToEnd, GoesOnFromACheckpointOnOtherShards) {
  nlohmann::json expected;
  BatchCheckpoint checkpoint;
  {
    BatchJob job(2);
    job.start_replica(1);
    job.await_iteration(3);
    checkpoint = job.checkpoint();
    job.await([&] { return job.ended(); });
    expected = outcome_of(job);
  }
  EXPECT_GE(checkpoint.state.iteration, 3);
  EXPECT_LT(checkpoint.state.iteration, expected.at("iteration")) << "nothing was held";
  BatchJob other(0, 1, &checkpoint);
  for (int number : {1, 2}) other.start_replica(number);
  other.await([&] { return other.ended(); });
  EXPECT_EQ(outcome_of(other), expected);
}

// A coordinator that has begun again in the middle of an iteration frees nothing of what that goes
// on from where an evaluator holds it.
TEST(BatchEndToEnd, HoldsVectorsBehindARestart) {
  BatchJob job(0);
  job.most_computed = 24 * 8 + 5;
  job.start_replica(1);
  job.await([&] { return job.computed() >= job.most_computed; });
  job.stop_replica(1);
  job.kill_coordinator();
  job.start_coordinator();
  const BatchCheckpoint checkpoint = job.checkpoint([&] {
    job.most_computed = UINT64_MAX;
    job.start_replica(2);
  });
  EXPECT_GT(checkpoint.state.iteration, 0);
  EXPECT_GE(job.batch().at("iteration"), checkpoint.state.iteration + 2);
}

}  // namespace
}  // namespace convoy::server
