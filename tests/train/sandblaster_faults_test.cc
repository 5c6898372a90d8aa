// What goes wrong in a Sandblaster job: replicas that are lost, vectors that are gone, losses that
// are none.
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/train/sandblaster_fixture.h"

namespace convoy::train {
namespace {

TEST_F(SandblasterTest, WhoIsGivenUpTakesPartAgain) {
  const Recipe r = recipe();
  FakeBatchJob<double> plain(r, 0);
  Outcome outcome = run(plain, r);
  ASSERT_EQ(outcome.error, "");
  const std::vector<double> expected = plain.weights(plain.state().weights);
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> groups{0};
  std::atomic<bool> dropped{false};
  job.before_add = [&](std::uint64_t client, const server::PortionGroup&) {
    if (++groups > 10 && !dropped.exchange(true)) job.drop(client);
  };
  outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(dropped);
  EXPECT_EQ(outcome.replicas[0].joined + outcome.replicas[1].joined, 3u);
  EXPECT_EQ(job.weights(job.state().weights), expected);
}

// Who comes back late finds that others have done its groups, and that the weights of their
// evaluation are gone.
TEST_F(SandblasterTest, WeightsThatAreGoneAreNoMistake) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> fetches{0};
  job.before_fetch = [&](std::uint64_t client, const optim::VectorName& name) {
    if (name.iteration != 1 || fetches++ > 0) return;
    job.hand_out_again(client);
    ASSERT_TRUE(job.wait_past({name.iteration, name.evaluation}));
    throw UsageError("there is no such vector");
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_GE(fetches, 2);
  EXPECT_EQ(outcome.result.steps, 6);
}

// Those of an evaluation that goes on are missed.
TEST_F(SandblasterTest, WeightsThatAreMissingAreSaid) {
  const Recipe r = recipe({"sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 0);
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name.iteration == 1) throw UsageError("there is no such vector");
  };
  EXPECT_EQ(run(job, r).error, "there is no such vector");
}

TEST_F(SandblasterTest, AFirstLossThatIsNotFiniteIsSaid) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId&, double) { return INFINITY; };
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("the first loss or gradient is not finite"), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("Look at the data"), std::string::npos) << outcome.error;
}

// A step to where the loss is none is too long.
TEST_F(SandblasterTest, ALaterLossThatIsNotFiniteShortensTheStep) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId& id, double loss) {
    return id == server::EvaluationId{1, 0} || id == server::EvaluationId{1, 1} ? INFINITY : loss;
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_LT(job.state().loss, 1.2);
}

}  // namespace
}  // namespace convoy::train
