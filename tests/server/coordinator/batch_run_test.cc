#include "server/coordinator/batch_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "server/service/coordinator_calls.h"
#include "server/service/portion_calls.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/batch_world.h"
#include "tests/server/coordinator/full_start.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;

struct Iterates {
  std::vector<Bytes> starts;  // of iterations, without what came of chance
  Vector weights;
  optim::BatchEnding ending = optim::BatchEnding::none;
  std::uint64_t repeated = 0;
};

optim::BatchOptions run_options(optim::BatchMethod method) {
  optim::BatchOptions options;
  options.method = method;
  options.history = 5;
  options.gradient_norm = method == optim::BatchMethod::lbfgs ? 1e-6 : 1e-3;
  return options;
}

// Coordinators one after the other, each until it crashes.
Iterates optimize(BatchWorld& world, const optim::BatchOptions& options, bool crash,
                  int most = 40) {
  Iterates all;
  int lives = 0;
  for (;; ++lives) {
    try {
      if (crash) world.crash_after = 1 + static_cast<int>(world.random() % 400);
      if (lives > 2000) {
        ADD_FAILURE() << "it doesn't end";
        return all;
      }
      StoredInWorld memory(world);
      SpaceOfWorld space(world);
      ReplicasOfWorld replicas(world);
      BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
      BatchRun run(options, space, objective, memory);
      while (!run.over() && run.state().iteration < most) {
        run.next();
        all.starts.push_back(world.start);
      }
      all.weights = world.vectors.at(run.state().weights);
      all.ending = run.last().ending;
      break;
    } catch (const Crash&) {
    }
  }
  // The last record may have been stored without anybody seeing it.
  world.crash_after = 0;
  return all;
}

TEST(BatchRun, ComesToTheSameBitsWhateverDiesAndHoweverPortionsAreGrouped) {
  for (const auto method : {optim::BatchMethod::lbfgs, optim::BatchMethod::conjugate_gradient,
                            optim::BatchMethod::gradient_descent}) {
    SCOPED_TRACE(name(method));
    const optim::BatchOptions options = run_options(method);
    BatchWorld quiet(1);
    quiet.largest = 0;
    const Iterates expected = optimize(quiet, options, false);
    ASSERT_GT(expected.starts.size(), 10u);
    if (method == optim::BatchMethod::lbfgs) {
      EXPECT_EQ(expected.ending, optim::BatchEnding::gradient);
    }
    for (std::uint64_t seed = 2; seed < (convoy::test::all_cases() ? 200u : 12u); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      BatchWorld world(seed);
      world.largest = static_cast<std::uint8_t>(seed % 5);
      const Iterates found = optimize(world, options, true);
      if (::testing::Test::HasFailure()) return;
      EXPECT_EQ(world.start, quiet.start) << "state of the method, to the last bit";
      EXPECT_EQ(found.weights, expected.weights);
    }
  }
}

TEST(BatchRun, ALossThatIsNotFiniteShortensTheStep) {
  BatchWorld quiet(1), world(7);
  quiet.bad_loss_below = world.bad_loss_below = 0;  // the first step goes there
  const optim::BatchOptions options = run_options(optim::BatchMethod::lbfgs);
  const Iterates expected = optimize(quiet, options, false);
  EXPECT_NE(expected.ending, optim::BatchEnding::not_finite);
  EXPECT_EQ(optimize(world, options, true).weights, expected.weights);
  EXPECT_EQ(world.start, quiet.start);
}

TEST(BatchRun, ALossThatIsNotFiniteAtTheStartIsNamedAndEndsIt) {
  BatchWorld world(3);
  world.bad_loss_below = 100;
  StoredInWorld memory(world);
  SpaceOfWorld space(world);
  ReplicasOfWorld replicas(world);
  BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
  BatchRun run(run_options(optim::BatchMethod::lbfgs), space, objective, memory);
  EXPECT_EQ(run.next().ending, optim::BatchEnding::not_finite);
  EXPECT_EQ(objective.not_finite(), 5u);
  EXPECT_TRUE(run.over());
  BatchRun again(run_options(optim::BatchMethod::lbfgs), space, objective, memory);
  EXPECT_TRUE(again.over()) << "also for who comes after it";
}

TEST(BatchRun, IsFedFromTheLogAndRepeatsTheLastCommandsAlone) {
  const optim::BatchOptions options = run_options(optim::BatchMethod::lbfgs);
  BatchWorld world(5);
  optimize(world, options, false, 3);
  const std::uint64_t before = world.portions_computed;
  // The fourth iteration, up to its last answer, of all new products, which isn't stored.
  class Refuses final : public BatchMemory {
   public:
    explicit Refuses(BatchWorld& of) : world(of) {}
    Bytes start() override { return world.start; }
    Bytes answers() override { return world.answers; }
    void begin(Bytes) override { FAIL() << "it lacks an answer"; }
    void answered(Bytes answers) override {
      if (decode_batch_answers(answers).answers.back().scalars.size() > 1)
        throw Failure("the disk is full");
      world.answers = std::move(answers);
    }
    BatchWorld& world;
  } refuses(world);
  SpaceOfWorld space(world);
  ReplicasOfWorld replicas(world);
  BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
  BatchRun run(options, space, objective, refuses);
  EXPECT_THROW(run.next(), Failure);
  EXPECT_EQ(run.state().iteration, 3);
  const std::uint64_t computed = world.portions_computed, given = world.commands_given;
  EXPECT_GE(computed - before, kBatchPortions);
  // The same process, and another one.
  EXPECT_THROW(run.next(), Failure);
  EXPECT_EQ(world.commands_given - given, 2u) << "step and change, behind the last answer";
  StoredInWorld memory(world);
  BatchRun next(options, space, objective, memory);
  EXPECT_EQ(next.next().iteration, 4);
  EXPECT_EQ(world.portions_computed, computed) << "nothing is evaluated again";
  EXPECT_EQ(world.commands_given - given, 4u);
}

// Who looks at what is stored finds its vectors, whatever of the next iteration is done.
TEST(BatchRun, HasTheVectorsOfWhatIsStored) {
  const optim::BatchOptions options = run_options(optim::BatchMethod::lbfgs);
  BatchWorld world(5);
  optimize(world, options, false, 7);
  class Looks final : public BatchMemory {
   public:
    Looks(BatchWorld& of, const optim::BatchOptions& with) : world(of), options(with) {}
    Bytes start() override { return world.start; }
    Bytes answers() override { return world.answers; }
    void begin(Bytes start) override {
      look();  // the iteration is done, and nobody knows it yet
      world.start = std::move(start);
      look();
      world.answers.clear();
    }
    void answered(Bytes answers) override {
      look();
      world.answers = std::move(answers);
    }
    void look() {
      ++looks;
      const BatchStart now = decode_batch_start(world.start);
      for (const VectorName& name : optim::vectors_of(now.state, options.method))
        EXPECT_TRUE(world.vectors.contains(name)) << to_string(name);
    }
    BatchWorld& world;
    const optim::BatchOptions& options;
    int looks = 0;
  } memory(world, options);
  SpaceOfWorld space(world);
  ReplicasOfWorld replicas(world);
  BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
  BatchRun run(options, space, objective, memory);
  for (int i = 0; i < 5; ++i) run.next();
  EXPECT_GE(memory.looks, 25);
}

// Of the iteration before: the process died when the next one's start was stored, and they were not
// removed yet.
TEST(BatchRun, HasNoUseForAnswersOfTheIterationBefore) {
  const optim::BatchOptions options = run_options(optim::BatchMethod::lbfgs);
  BatchWorld quiet(5), world(5);
  optimize(quiet, options, false, 4);
  optimize(world, options, false, 2);
  class KeepsAnswers final : public BatchMemory {
   public:
    explicit KeepsAnswers(BatchWorld& of) : world(of) {}
    Bytes start() override { return world.start; }
    Bytes answers() override { return world.answers; }
    void begin(Bytes start) override { world.start = std::move(start); }
    void answered(Bytes answers) override { world.answers = std::move(answers); }
    BatchWorld& world;
  } memory(world);
  for (int lives = 0; lives < 2; ++lives) {
    SpaceOfWorld space(world);
    ReplicasOfWorld replicas(world);
    BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
    BatchRun run(options, space, objective, memory);
    EXPECT_EQ(run.next().iteration, 3 + lives);
    EXPECT_FALSE(world.answers.empty());
  }
  EXPECT_EQ(world.start, quiet.start);
}

TEST(BatchRun, RefusesAnswersToOtherQuestions) {
  const optim::BatchOptions options = run_options(optim::BatchMethod::lbfgs);
  BatchWorld world(5);
  optimize(world, options, false, 3);
  const BatchAnswers other{decode_batch_start(world.start).commands, {{17, {1.0}}}};
  world.answers = encode(other);
  world.done += 10;  // as if there had been commands before it
  StoredInWorld memory(world);
  SpaceOfWorld space(world);
  ReplicasOfWorld replicas(world);
  BatchObjective objective({kBatchPortions, 210, kL2}, space, replicas);
  BatchRun run(options, space, objective, memory);
  EXPECT_THROW(run.next(), UsageError) << "whoever tries it again finds the same";
}

// Of the longest history that a recipe may have all that is known goes into one message.
TEST(BatchRecord, OfTheLongestHistoryFitsIntoAMessage) {
  const std::size_t largest = calls::kLargestRequest;
  const auto size_of = [](int history) {
    return calls::encode(calls::BatchFrom{1, encode(full_start(history))}).size();
  };
  EXPECT_LE(size_of(kLongestHistory), largest);
  EXPECT_GT(size_of(kLongestHistory + 1), largest);
}

// What goes into a store that takes no large values is known before anything begins.
TEST(BatchRecord, IsNoLargerThanItsMethodSays) {
  for (const auto method : {optim::BatchMethod::lbfgs, optim::BatchMethod::conjugate_gradient,
                            optim::BatchMethod::gradient_descent}) {
    SCOPED_TRACE(name(method));
    const optim::BatchOptions options = run_options(method);
    BatchWorld world(4);
    std::size_t largest = 0;
    for (int iteration = 1; iteration < 20; ++iteration) {
      optimize(world, options, false, iteration);
      largest = std::max(largest, world.start.size());
    }
    EXPECT_LE(largest, largest_start(options));
    EXPECT_GT(largest, 150u);
    if (method == optim::BatchMethod::lbfgs) {
      EXPECT_GT(largest, largest_start(options) * 3 / 4);
    }
    EXPECT_NO_THROW(require_room(options, largest_start(options)));
    EXPECT_THROW(require_room(options, largest_start(options) - 1), UsageError);
  }
  optim::BatchOptions options;
  EXPECT_NO_THROW(require_room(options, std::size_t{1} << 20));
  options.history = 1000;
  try {
    require_room(options, std::size_t{1} << 20);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("history = 1000"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("a history of at most 122"), std::string::npos)
        << error.what();
  }
}

TEST(BatchRecord, ComesBackFromItsBytesAndRefusesOthers) {
  BatchWorld world(5);
  optimize(world, run_options(optim::BatchMethod::conjugate_gradient), false, 4);
  const BatchStart start = decode_batch_start(world.start);
  EXPECT_EQ(start.state.iteration, 4);
  EXPECT_EQ(encode(start), world.start);
  const BatchAnswers answers{7, {{1, {0.5, -0.0}}, {2, {}}}};
  const Bytes bytes = encode(answers);
  EXPECT_EQ(decode_batch_answers(bytes), answers);
  for (std::size_t size = 0; size < world.start.size(); ++size)
    EXPECT_THROW(decode_batch_start(std::span(world.start).first(size)), UsageError);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_batch_answers(std::span(bytes).first(size)), UsageError);
}

}  // namespace
}  // namespace convoy::server::coordinator
