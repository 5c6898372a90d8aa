// Vectors of a batch optimizer, and gradients of portions, on nodes that are killed.
#include <future>

#include "server/host/batch_desk.h"
#include "tests/server/host/cluster.h"
#include "tests/server/state/batch_shards.h"

namespace convoy::server::host::test {
namespace {

using calls::Outcome;
using optim::VectorName;
using optim::VectorRole;

constexpr std::size_t kElements = 50;
constexpr EvaluationId kEvaluation{1, 0};
constexpr std::uint32_t kPortions = 6;

struct BatchCluster : Cluster {
  explicit BatchCluster(Options options = Options()) : Cluster(options) {}

  // Weights, and an evaluation that is open.
  void begin() {
    EXPECT_EQ(give(define_command(definition({slice("w", kElements)}))).status, Status::done);
    EXPECT_EQ(give(space_command(Element::f64)).status, Status::done);
    const std::vector<double> start = random_values<double>(kElements, 77);
    const BatchSlice slice{0, batch_values(std::span(start))};
    EXPECT_EQ(give(put_command(0, {VectorRole::weights, 1, 0}, {&slice, 1})).status, Status::done);
    EXPECT_EQ(give(evaluate_command(1, kEvaluation, kPortions)).status, Status::done);
  }

  // Asks whoever is primary until it is done or refused.
  template <typename Ask>
  calls::Answered ask_primary(const Ask& ask) {
    calls::Answered last;
    EXPECT_TRUE(wait([&] {
      for (const std::uint64_t node : {1, 2, 3}) {
        if (!runs(node)) continue;
        std::promise<calls::Answered> promise;
        auto answer = promise.get_future();
        ask(host(node), [&promise](calls::Answered one) { promise.set_value(std::move(one)); });
        last = answer.get();
        if (last.outcome == Outcome::done || last.outcome == Outcome::refused) return true;
      }
      return false;
    })) << last.reason;
    return last;
  }
  GroupAnswer add(const PortionGroup& group, const EvaluationId& id = kEvaluation) {
    PortionSum<double> sum;
    for (std::uint64_t i = group.first; i < std::min<std::uint64_t>(group.end(), kPortions); ++i) {
      sum.add(random_values<double>(kElements, static_cast<unsigned>(i)));
    }
    const std::vector<BatchSlice> slices = {{0, batch_values(sum.take())}};
    const std::vector<Bytes> pieces = calls::group_pieces({0, id, group, slices});
    auto bytes = std::make_shared<Bytes>(pieces.front());
    bytes->insert(bytes->end(), slices[0].values.bytes.begin(), slices[0].values.bytes.end());
    const auto message = transport::Message::view(*bytes, bytes);
    const auto answer = ask_primary([&](ShardHost& host, Answer to) {
      host.group(calls::decode_group(*bytes), message, std::move(to));
    });
    EXPECT_EQ(answer.outcome, Outcome::done) << answer.reason;
    return calls::decode_group_answer(answer.content);
  }
  calls::Sealed seal(const EvaluationId& id = kEvaluation) {
    const auto answer = ask_primary([&](ShardHost& host, Answer to) {
      host.seal({0, id, 0.5, {{0.1, {VectorRole::weights, 1, 0}}}}, std::move(to));
    });
    EXPECT_EQ(answer.outcome, Outcome::done) << answer.reason;
    return calls::decode_sealed(answer.content);
  }
  std::vector<PortionRange> missing() {
    const auto answer = ask_primary([&](ShardHost& host, const Answer& to) {
      to(host.missing({0, kEvaluation}));
    });
    EXPECT_EQ(answer.outcome, Outcome::done) << answer.reason;
    return calls::decode_sealed(answer.content).missing;
  }
  std::vector<double> get(const VectorName& name) {
    const auto answer = ask_primary([&](ShardHost& host, const Answer& to) {
      to(host.vector({0, 0, name, {{0, 0, kElements}}}));
    });
    EXPECT_EQ(answer.outcome, Outcome::done) << answer.reason;
    std::vector<double> values(kElements);
    calls::decode_vector_values(answer.content)
        .values.copy_to(std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<double> gradient() { return get({VectorRole::gradient, 1, 0}); }
};

std::vector<double> expected_gradient() {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  for (std::uint32_t i = 0; i < kPortions; ++i) EXPECT_EQ(cluster.add({i, 0}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.seal().sealed);
  return cluster.gradient();
}

TEST(BatchHost, SealsWhatIsComplete) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({2, 0}), GroupAnswer::had);
  EXPECT_EQ(cluster.add({4, 0}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::overlaps);
  const calls::Sealed incomplete = cluster.seal();
  EXPECT_FALSE(incomplete.sealed);
  EXPECT_EQ(incomplete.missing, (std::vector<PortionRange>{{5, 6}}));
  EXPECT_EQ(cluster.host(1).report().vectors,
            (calls::VectorReport{1, kElements * 8, 2 * kElements * 8, 5}));
  EXPECT_EQ(cluster.add({5, 0}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.missing().empty());
  EXPECT_TRUE(cluster.seal().sealed);
  EXPECT_TRUE(cluster.seal().sealed);
  EXPECT_EQ(cluster.add({5, 0}), GroupAnswer::had);
  expect_same_bits(cluster.gradient(), expected_gradient());
  EXPECT_EQ(cluster.give(evaluate_command(2, {2, 0}, 1)).status, Status::done);
  EXPECT_EQ(cluster.add({5, 0}, {1, 1}), GroupAnswer::ended);
  // Vectors are counted, and what is kept of groups' memory for the next ones; the floats of pushes
  // and fetches aren't there.
  const calls::ShardReport report = cluster.host(1).report();
  EXPECT_EQ(report.memory_bytes, kElements * 8 * (2 + 3));
  EXPECT_EQ(report.vectors, (calls::VectorReport{2, kElements * 8 * 2, 0, 0}));
}

// The method frees a gradient as soon as it knows that the step is none; a replica may be late.
TEST(BatchHost, AGroupThatComesWhenItsGradientIsFreedWasThere) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.seal().sealed);
  const VectorName weights{VectorRole::weights, 1, 0};
  EXPECT_EQ(cluster.give(keep_command(2, {&weights, 1})).status, Status::done);
  EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::had);
  EXPECT_EQ(cluster.add({4, 0}), GroupAnswer::had);
}

// A node that has become the backup may still have to apply what says which slices there are.
TEST(BatchHost, ABackupKeepsNothingBeforeItKnowsTheSlices) {
  const std::vector<double> values = random_values<double>(kElements, 3);
  const std::vector<BatchSlice> slices = {{0, batch_values(std::span(values))}};
  const calls::CopyRequest copy{1, {kEvaluation, 1, 3}, Element::f64, {0, kEvaluation, {}, slices}};
  ShardState state;
  BatchDesk desk(state);
  EXPECT_FALSE(desk.keep(copy));
  give(state, define_command(definition({slice("w", kElements)})));
  EXPECT_TRUE(desk.keep(copy));
  EXPECT_EQ(desk.bytes(), kElements * 8);
  give(state, space_command(Element::f64));
  give(state, evaluate_command(0, kEvaluation, 1));
  const auto made = desk.seal({0, kEvaluation, 1, {}});
  ASSERT_TRUE(std::holds_alternative<Bytes>(made));
  EXPECT_EQ(give(state, std::get<Bytes>(made)).status, Status::done);
  // What comes when all is over is of no use, and isn't sent again.
  desk.look();
  EXPECT_TRUE(desk.keep(copy));
  ASSERT_TRUE(desk.report());
  EXPECT_EQ(desk.report()->group_bytes, 0u);
}

// Where the newest commands were lost with the nodes that had them, a snapshot brings back a state
// of before them.
TEST(BatchHost, GroupsOfALostHistoryAreForgotten) {
  const std::vector<double> values = random_values<double>(kElements, 3);
  const std::vector<BatchSlice> slices = {{0, batch_values(std::span(values))}};
  ShardState state;
  BatchDesk desk(state);
  give(state, define_command(definition({slice("w", kElements)})));
  give(state, space_command(Element::f64));
  const Bytes before = saved(state);
  for (const std::int64_t iteration : {1, 2, 3}) {
    give(state, evaluate_command(0, {iteration, 0}, 2));
    desk.look();
  }
  EXPECT_TRUE(std::holds_alternative<BatchDesk::Kept>(desk.add({0, {3, 0}, {0, 0}, slices})));
  EXPECT_EQ(desk.bytes(), kElements * 8);
  MemorySource source(before);
  state.load(source);
  desk.loaded();
  ASSERT_TRUE(desk.report());
  EXPECT_EQ(desk.report()->group_bytes, 0u);
  give(state, evaluate_command(0, {1, 0}, 2));
  desk.look();
  EXPECT_TRUE(std::holds_alternative<BatchDesk::Kept>(desk.add({0, {1, 0}, {0, 1}, slices})));
  EXPECT_TRUE(std::holds_alternative<Bytes>(desk.seal({0, {1, 0}, 1, {}})));
}

// A gradient may take longer to replicate than anybody waits for an answer.
TEST(BatchHost, ASealThatIsAskedForAgainMakesNoSecondGradient) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::kept);
  // Nobody finds out that there is no backup any more.
  cluster.time.stand(true);
  cluster.kill(2);
  std::vector<std::future<calls::Answered>> answers;
  for (int i = 0; i < 2; ++i) {
    const auto said = std::make_shared<std::promise<calls::Answered>>();
    answers.push_back(said->get_future());
    cluster.host(1).seal({0, kEvaluation, 0.5, {}}, [said](calls::Answered answered) {
      said->set_value(std::move(answered));
    });
  }
  EXPECT_NE(answers[0].wait_for(0s), std::future_status::ready);
  ASSERT_EQ(answers[1].wait_for(0s), std::future_status::ready);
  EXPECT_EQ(answers[1].get().outcome, Outcome::busy);
  cluster.time.stand(false);
  const calls::Answered done = answers[0].get();
  ASSERT_EQ(done.outcome, Outcome::done) << done.reason;
  EXPECT_TRUE(calls::decode_sealed(done.content).sealed);
  EXPECT_TRUE(cluster.seal().sealed);
}

// Groups are in the backup's memory before they are answered.
TEST(BatchHost, GroupsOutliveAPrimary) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.start(2);
  cluster.begin();
  ASSERT_TRUE(cluster.wait([&] { return bool(cluster.authority().configuration().backup); }));
  const std::uint64_t first = cluster.authority().configuration().primary.node;
  ASSERT_TRUE(cluster.wait_served(first, 3 - first));
  for (const PortionGroup& group : {PortionGroup{0, 1}, {3, 0}, {4, 0}}) {
    EXPECT_EQ(cluster.add(group), GroupAnswer::kept);
  }
  cluster.kill(first);
  EXPECT_EQ(cluster.missing(), (std::vector<PortionRange>{{2, 3}, {5, 6}}));
  EXPECT_EQ(cluster.add({2, 0}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({5, 0}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.seal().sealed);
  expect_same_bits(cluster.gradient(), expected_gradient());
}

// A node that becomes the backup gets those that came before.
TEST(BatchHost, ANewBackupGetsTheGroups) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  for (const PortionGroup& group : {PortionGroup{0, 1}, {3, 0}, {5, 0}}) {
    EXPECT_EQ(cluster.add(group), GroupAnswer::kept);
  }
  EXPECT_EQ(cluster.copies(), 0u);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  ASSERT_TRUE(cluster.wait([&] { return cluster.copies() >= 3; }));
  cluster.kill(1);
  EXPECT_EQ(cluster.missing(), (std::vector<PortionRange>{{2, 3}, {4, 5}}));
  EXPECT_EQ(cluster.add({2, 0}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({4, 0}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.seal().sealed);
  expect_same_bits(cluster.gradient(), expected_gradient());
}

// A backup that is gone keeps nobody waiting for longer than it takes to find out.
TEST(BatchHost, AKilledBackupIsDoneWithout) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  cluster.kill(2);
  EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
  EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::kept);
  EXPECT_TRUE(cluster.seal().sealed);
  expect_same_bits(cluster.gradient(), expected_gradient());
}

// A group is large: it isn't sent to a backup again and again that can't take it yet.
TEST(BatchHost, ACopyThatDidNotArriveIsSentAgainAfterAWhile) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  cluster.refuse_copies = true;
  cluster.time.stand(true);
  auto added = std::async(std::launch::async, [&] { return cluster.add({0, 2}); });
  ASSERT_TRUE(cluster.wait([&] { return cluster.offers() > 0; }));
  const std::uint64_t looks = cluster.looks();
  ASSERT_TRUE(cluster.wait([&] { return cluster.looks() > looks + 200; }));
  // Twice where it was there before the backup had been given what there was.
  constexpr std::uint64_t kWays = 2;
  EXPECT_LE(cluster.offers(), kWays);
  cluster.refuse_copies = false;
  cluster.time.stand(false);
  EXPECT_EQ(added.get(), GroupAnswer::kept);
  EXPECT_GE(cluster.copies(), 1u);
  EXPECT_LE(cluster.copies(), kWays);
}

// Both copies lost: vectors are there, and which evaluation it was; its groups come again.
TEST(BatchHost, GroupsAreInMemoryAlone) {
  for (const bool snapshots : {false, true}) {
    BatchCluster cluster({.snapshot_bytes = snapshots ? 100u : 1u << 26});
    cluster.start(1);
    cluster.start(2);
    cluster.begin();
    EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
    EXPECT_EQ(cluster.add({4, 0}), GroupAnswer::kept);
    cluster.kill(1);
    cluster.kill(2);
    cluster.start(1);
    cluster.start(2);
    EXPECT_EQ(cluster.missing(), (std::vector<PortionRange>{{0, kPortions}}));
    EXPECT_EQ(cluster.add({0, 2}), GroupAnswer::kept);
    EXPECT_EQ(cluster.add({4, 1}), GroupAnswer::kept);
    EXPECT_TRUE(cluster.seal().sealed);
    expect_same_bits(cluster.gradient(), expected_gradient());
    // What is sealed is in the log.
    cluster.kill(1);
    cluster.kill(2);
    cluster.start(1);
    cluster.start(2);
    EXPECT_TRUE(cluster.seal().sealed);
    expect_same_bits(cluster.gradient(), expected_gradient());
  }
}

// Vectors that were made by commands are the same on the backup, also on one that came late.
TEST(BatchHost, TheBackupMakesTheSameVectors) {
  BatchCluster cluster({.snapshot_bytes = 500, .segment_bytes = 200});
  cluster.start(1);
  cluster.begin();
  const VectorName weights{VectorRole::weights, 1, 0};
  std::uint64_t ordinal = 10;
  const auto make = [&](std::int64_t iteration) {
    const std::vector<optim::Term> terms = {{0.1, weights}, {1, weights}};
    EXPECT_EQ(cluster.give(combine_command(++ordinal, {VectorRole::step, iteration}, terms)).status,
              Status::done);
  };
  make(1);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  make(2);
  const std::vector<double> expected = cluster.get({VectorRole::step, 1});
  cluster.kill(1);
  expect_same_bits(cluster.get({VectorRole::step, 1}), expected);
  expect_same_bits(cluster.get({VectorRole::step, 2}), expected);
}

TEST(BatchHost, ANodeThatIsNotPrimarySaysWhoIs) {
  BatchCluster cluster;
  cluster.start(1);
  cluster.begin();
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  ASSERT_TRUE(cluster.wait([&] { return cluster.host(2).report().primary == 1; }));
  for (const calls::Answered& answer :
       {cluster.host(2).dots({}), cluster.host(2).vector({}), cluster.host(2).vectors(),
        cluster.host(2).missing({0, kEvaluation})}) {
    EXPECT_EQ(answer.outcome, Outcome::not_primary);
    EXPECT_EQ(answer.primary, 1u);
  }
  // Whoever knows of a command that isn't applied here has heard another primary.
  EXPECT_EQ(cluster.host(1).dots({0, 1000, {}}).outcome, Outcome::busy);
  // Weights of an evaluation that comes are waited for, those of one that is over are not.
  EXPECT_EQ(cluster.host(1).vector({0, 0, {VectorRole::weights, 1, 1}, {}}).outcome, Outcome::busy);
  EXPECT_EQ(cluster.host(1).vector({0, 0, {VectorRole::weights, 0, 1}, {}}).outcome,
            Outcome::refused);
}

}  // namespace
}  // namespace convoy::server::host::test
