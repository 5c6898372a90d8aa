// How a Sandblaster job stops, and what goes on from its checkpoints.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/train/trained.h"
#include "tests/train/sandblaster_fixture.h"
#include "train/strategies/sandblaster/saved.h"

namespace convoy::train {
namespace {

TEST_F(SandblasterTest, ToldToStopItSavesWhatThereIs) {
  const Recipe r = recipe({"training.steps=100000", "sandblaster.gradient_norm=0"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r, [&job] { return job.evaluations() > 3; });
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.result.stopped);
  EXPECT_NE(outcome.result.checkpoint, "");
}

// All that the method goes on from is in a checkpoint, and it doesn't matter who goes on.
TEST_F(SandblasterTest, GoesOnFromACheckpointWithTheSameBits) {
  for (const std::string method : {"lbfgs", "conjugate_gradient"}) {
    SCOPED_TRACE(method);
    const auto steps = [&](int count, int replicas) {
      return recipe({"training.steps=" + std::to_string(count),
                     "sandblaster.replicas=" + std::to_string(replicas),
                     "sandblaster.method=" + method, "sandblaster.curvature=0.1"});
    };
    FakeBatchJob<double> whole(steps(7, 1), 1);
    ASSERT_EQ(run(whole, steps(7, 1)).error, "");
    FakeBatchJob<double> first(steps(4, 2), 0);
    Outcome outcome = run(first, steps(4, 2));
    ASSERT_EQ(outcome.error, "");
    const State state = saved(outcome.result.checkpoint);
    EXPECT_EQ(state.lists.at("batch").front(), "iteration 4");
    EXPECT_TRUE(state.optimizer.contains("gradient/fc1.weight"));
    EXPECT_EQ(state.optimizer.contains("step.4/fc1.weight"), method == "lbfgs");
    EXPECT_EQ(state.optimizer.contains("direction/fc1.weight"), method != "lbfgs");
    FakeBatchJob<double> second(steps(7, 3), 2);
    outcome = run(second, steps(7, 3), {}, outcome.result.checkpoint);
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.result.steps, 7);
    EXPECT_EQ(second.state(), whole.state());
    EXPECT_EQ(second.weights(second.state().weights), whole.weights(whole.state().weights));
    EXPECT_EQ(second.evaluations() + first.evaluations(), whole.evaluations());
  }
}

// A coordinator that was started again holds no vectors for anybody: those of the next state are
// there, before anything of this one is evaluated or written.
TEST_F(SandblasterTest, ACheckpointWhoseVectorsAreGoneIsOfTheNextState) {
  const Recipe r = recipe({"checkpoint.every_steps=2"});
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> refused{0};
  job.before_fetch = [&](std::uint64_t client, const optim::VectorName& name) {
    const bool evaluators = client == 0 && name.role == optim::VectorRole::gradient;
    if (evaluators && refused++ == 0) throw UsageError("there is no such vector");
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_GE(refused, 2);
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_TRUE(saved(outcome.result.checkpoint).optimizer.contains("gradient/fc1.weight"));
}

// Another strategy takes the weights, and its optimizer begins anew.
TEST_F(SandblasterTest, OtherStrategiesGoOnFromItsWeights) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const double before = job.state().loss;
  const Recipe sync =
      recipe({"strategy=sync", "training.steps=30", "optimizer.lr=0.01", "optimizer.name=adam",
              "output.folder=\"" + scratch_.path() + "/sync\""});
  comm::World::run_threads(1, [&](comm::World& world) {
    TrainerOptions options;
    options.progress = false;
    options.resume = outcome.result.checkpoint;
    const RunResult result = Trainer(world, registry_, sync, options).run();
    EXPECT_EQ(result.steps, 30);
    EXPECT_LT(result.loss, before + 0.1);
    Trained trained(world, registry_,
                    find_trained(registry_, outcome.result.checkpoint, Which::newest, {}));
    const auto score = trained.evaluate(std::make_shared<testing_data::Stripes>(30));
    ASSERT_FALSE(score.figures.empty());
    for (std::size_t i = 0; i < score.figures.size(); ++i)
      EXPECT_EQ(score.figures[i].value, outcome.result.evaluation->figures[i].value);
  });
}

TEST_F(SandblasterTest, SaysWhatAnotherMethodLacks) {
  const Recipe r = recipe({"training.steps=2"});
  FakeBatchJob<double> job(r, 1);
  Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const Recipe other = recipe({"sandblaster.method=conjugate_gradient"});
  FakeBatchJob<double> second(other, 1);
  outcome = run(second, other, {}, outcome.result.checkpoint);
  EXPECT_NE(outcome.error.find("the checkpoint has no vector 'direction 2"), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("sandblaster.method"), std::string::npos) << outcome.error;
}

// Of a history that is too long by now the newest steps are gone on from, as with a shorter one.
TEST(SandblasterState, ALongHistoryIsShortened) {
  using optim::VectorName;
  using optim::VectorRole;
  optim::BatchState state;
  state.iteration = 7;
  state.weights = {VectorRole::weights, 7, 1};
  state.history = {2, 3, 5, 6};
  const VectorName gradient = optim::gradient_of(state.weights);
  std::vector<VectorName> names{gradient, {VectorRole::change, 7}};
  for (const std::int64_t iteration : state.history) {
    names.push_back({VectorRole::step, iteration});
    names.push_back({VectorRole::change, iteration});
  }
  for (const VectorName& a : names) {
    for (const VectorName& b : names) {
      if (!(b < a)) state.products[{a, b}] = 1;
    }
  }
  optim::BatchState same = state;
  shorten_history(same, 4);
  EXPECT_EQ(same, state);
  shorten_history(state, 2);
  EXPECT_EQ(state.history, (std::vector<std::int64_t>{5, 6}));
  // The gradient, the last change, and two of each of two steps.
  EXPECT_EQ(state.products.size(), 6u * 7 / 2);
  for (const auto& [pair, product] : state.products) {
    for (const VectorName& name : {pair.first, pair.second}) EXPECT_GE(name.iteration, 5);
  }
}

// What is saved of the method are loss, gradient and history of one function.
TEST_F(SandblasterTest, AnotherFunctionIsRefused) {
  const Recipe r = recipe({"training.steps=2"});
  FakeBatchJob<double> job(r, 1);
  const Outcome first = run(job, r);
  ASSERT_EQ(first.error, "");
  const auto error_with = [&](const std::string& change) {
    const Recipe other = recipe({change});
    FakeBatchJob<double> second(other, 1);
    return run(second, other, {}, first.result.checkpoint).error;
  };
  for (const char* change : {"sandblaster.l2=0.5", "data.mean=[0.25]", "data.deviation=[2]",
                             "data.augment.flip=true", "task.options.label_smoothing=0.1"}) {
    const std::string error = error_with(change);
    const std::string key = std::string(change).substr(0, std::string(change).find('='));
    EXPECT_NE(error.find("can't be resumed with this recipe: " + key + " is "), std::string::npos)
        << error;
    EXPECT_NE(error.find("begin with its weights (model.weights"), std::string::npos) << error;
  }
  // Portions are only another order of the same sums.
  EXPECT_EQ(error_with("sandblaster.portion=12"), "");
}

}  // namespace
}  // namespace convoy::train
