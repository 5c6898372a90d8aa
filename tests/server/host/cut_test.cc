// Cuts at pushes that clients agree on.
#include "tests/server/host/cluster.h"

namespace convoy::server::host::test {
namespace {

using calls::Outcome;

class Cuts : public testing::Test {
 protected:
  void SetUp() override {
    cluster.start(1);
    cluster.define(4);
    EXPECT_EQ(cluster.give(join_command(2, "another")).status, Status::done);
    cluster.time.stand(true);  // or cuts would not wait for as long as they are to
  }

  std::future<calls::Answered> cut(std::uint64_t id, LastPushes until, std::uint64_t ms) {
    auto answered = std::make_shared<std::promise<calls::Answered>>();
    auto answer = answered->get_future();
    cluster.host(1).cut({0, id, ms, std::move(until)},
                        [answered](calls::Answered one) { answered->set_value(std::move(one)); });
    return answer;
  }
  std::future<calls::Answered> push(std::uint64_t client, std::uint64_t sequence) {
    auto answered = std::make_shared<std::promise<calls::Answered>>();
    auto answer = answered->get_future();
    cluster.host(1).command(
        std::make_shared<const Bytes>(
            server::test::push(client, sequence, 0, {-1, -1, -1, -1}, 1, 0, {sequence})),
        [answered](calls::Answered one) { answered->set_value(std::move(one)); });
    return answer;
  }
  static bool waits(std::future<calls::Answered>& answer) {
    return answer.wait_for(100ms) == std::future_status::timeout;
  }
  std::vector<float> values(std::uint64_t id) {
    calls::FetchRequest request;
    request.cut = id;
    request.ranges = {{0, 0, 0, 4}};
    const auto answer = cluster.host(1).fetch(request);
    EXPECT_EQ(answer.outcome, Outcome::done) << answer.reason;
    std::vector<float> result(4);
    calls::decode_fetched(answer.content).values.copy_to(std::as_writable_bytes(std::span(result)));
    return result;
  }

  Cluster cluster{Cluster::Options{.files = false}};
};

TEST_F(Cuts, AreMadeAtOnceWhenAllIsThere) {
  EXPECT_EQ(push(1, 1).get().outcome, Outcome::done);
  const auto answer = cut(5, {{1, 1, 0}, {2, 0, 0}}, 60000).get();
  ASSERT_EQ(answer.outcome, Outcome::done) << answer.reason;
  const LastPushes pushes = calls::decode_pushes(answer.content);
  EXPECT_EQ(pushes, (LastPushes{{1, 1, 0}, {2, 0, 0}}));
  EXPECT_EQ(push(1, 2).get().outcome, Outcome::done);
  EXPECT_EQ(values(5), std::vector<float>(4, 1));
}

TEST_F(Cuts, HoldLaterPushesBackUntilTheyAreMade) {
  EXPECT_EQ(push(1, 1).get().outcome, Outcome::done);
  auto answer = cut(5, {{1, 1, 0}, {2, 1, 0}}, 60000);
  auto later = push(1, 2);
  EXPECT_TRUE(waits(later));
  EXPECT_TRUE(waits(answer));
  // Others, and other commands, go on.
  EXPECT_EQ(cluster.give(join_command(3, "")).status, Status::done);
  EXPECT_EQ(push(3, 1).get().outcome, Outcome::done);
  EXPECT_EQ(push(2, 1).get().outcome, Outcome::done);
  ASSERT_EQ(answer.get().outcome, Outcome::done);
  EXPECT_EQ(later.get().outcome, Outcome::done);
  EXPECT_EQ(values(5), std::vector<float>(4, 3));  // without push 2 of client 1
  EXPECT_EQ(cluster.fetched(1, 4), std::vector<float>(4, 4));
}

TEST_F(Cuts, AreRefusedWhenTheirTimeIsOver) {
  EXPECT_EQ(push(1, 1).get().outcome, Outcome::done);
  auto answer = cut(5, {{1, 1, 0}, {2, 1, 0}}, 300);
  auto later = push(1, 2);
  EXPECT_TRUE(waits(answer));
  cluster.time.stand(false);
  const auto refused = answer.get();
  EXPECT_EQ(refused.outcome, Outcome::refused);
  EXPECT_EQ(refused.reason, "client 2 is at push 0, the cut is to be at 1");
  EXPECT_EQ(later.get().outcome, Outcome::done);
}

TEST_F(Cuts, AreRefusedWhenAClientIsBeyond) {
  EXPECT_EQ(push(1, 2).get().outcome, Outcome::done);
  const auto refused = cut(5, {{1, 1, 0}}, 60000).get();
  EXPECT_EQ(refused.outcome, Outcome::refused);
  EXPECT_EQ(refused.reason, "client 1 is at push 2, the cut is to be at 1");
}

TEST_F(Cuts, ThatCantBeKeptAreRefused) {
  for (std::uint64_t id = 1; id <= kMaxCuts; ++id) {
    EXPECT_EQ(cut(id, {}, 60000).get().outcome, Outcome::done);
  }
  const auto refused = cut(9, {}, 60000).get();
  EXPECT_EQ(refused.outcome, Outcome::refused);
  EXPECT_NE(refused.reason.find("drop one"), std::string::npos) << refused.reason;
}

TEST_F(Cuts, WaitInBounds) {
  // However long that is said to be, and not more than can be kept.
  std::vector<std::future<calls::Answered>> waiting;
  for (std::uint64_t id = 1; id <= kMaxCuts; ++id) {
    waiting.push_back(cut(id, {{1, 1, 0}}, UINT64_MAX));
  }
  EXPECT_TRUE(waits(waiting.front()));
  EXPECT_EQ(cut(9, {{1, 1, 0}}, 60000).get().outcome, Outcome::busy);
  EXPECT_EQ(push(1, 1).get().outcome, Outcome::done);
  for (auto& each : waiting) EXPECT_EQ(each.get().outcome, Outcome::done);
}

TEST_F(Cuts, SeveralHoldIndependently) {
  auto one = cut(1, {{1, 1, 0}}, 60000);
  auto other = cut(2, {{1, 2, 0}}, 60000);
  auto second = push(1, 2);  // waits for the first cut
  EXPECT_TRUE(waits(second));
  EXPECT_EQ(push(1, 1).get().outcome, Outcome::done);
  EXPECT_EQ(one.get().outcome, Outcome::done);
  EXPECT_EQ(second.get().outcome, Outcome::done);
  EXPECT_EQ(other.get().outcome, Outcome::done);
  EXPECT_EQ(values(1), std::vector<float>(4, 1));
  EXPECT_EQ(values(2), std::vector<float>(4, 2));
}

TEST(CutHolds, LetGoOfEverything) {
  CutHolds holds;
  int answers = 0;
  const auto count = [&](calls::Answered) { ++answers; };
  holds.add({{0, 1, 0, {{7, 3, 0}}}, count, Clock::now() + 1h});
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
    CutHolds::Waiting waiting{std::make_shared<const Bytes>(10), count};
    EXPECT_EQ(holds.hold({7, sequence}, waiting), sequence > 3);
    EXPECT_EQ(!waiting.command, sequence > 3);
    EXPECT_FALSE(holds.hold({8, sequence}, waiting));
  }
  EXPECT_EQ(holds.waiting(), 2u);
  EXPECT_EQ(holds.waiting_bytes(), 20u);
  EXPECT_TRUE(holds.decide(Clock::now(), {{7, 2}}).go_on.empty());
  const auto late = holds.decide(Clock::now() + 2h, {{7, 2}});
  EXPECT_EQ(late.refuse.size(), 1u);
  EXPECT_EQ(late.go_on.size(), 2u);
  EXPECT_TRUE(holds.empty());
  EXPECT_EQ(holds.waiting(), 0u);
  EXPECT_EQ(holds.waiting_bytes(), 0u);
}

}  // namespace
}  // namespace convoy::server::host::test
