// Who is missing from an operation, as ranks find out by asking each other. The time is made up.
#include "comm/engine/stall_detector.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

using Note = std::pair<int, std::vector<std::byte>>;

// What ranks have sent each other, and what time it is for all of them.
struct Room {
  std::vector<std::deque<Note>> notes;
  Clock::time_point time{};
};

class NotesOnly : public Transport, public OwnTime {
 public:
  NotesOnly(Room& room, int rank) : room_(room), rank_(rank) {}

  Clock::time_point now() override { return room_.time; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(room_.notes.size()); }
  int world_rank(int rank) const override { return rank; }
  std::unique_ptr<Transport> split(int /*color*/, int /*key*/) override { return nullptr; }
  void post_note(int to, std::span<const std::byte> note) override {
    room_.notes.at(static_cast<std::size_t>(to))
        .emplace_back(rank_, std::vector<std::byte>(note.begin(), note.end()));
  }
  std::optional<Note> poll_note() override {
    auto& mine = room_.notes.at(static_cast<std::size_t>(rank_));
    if (mine.empty()) return std::nullopt;
    Note note = std::move(mine.front());
    mine.pop_front();
    return note;
  }
  void abort(const std::string& /*reason*/) noexcept override {}
  bool abort_ends_process() const override { return false; }

 protected:
  void* start_send(int /*to*/, std::uint32_t /*tag*/, std::span<const std::byte>) override {
    return nullptr;
  }
  void* start_receive(int /*from*/, std::uint32_t /*tag*/, std::span<std::byte>) override {
    return nullptr;
  }
  bool poll(void* /*request*/) override { return false; }
  void cancel(void* /*request*/) noexcept override {}

 private:
  Room& room_;
  const int rank_;
};

StallDetector::Doing idle() {
  return {.what = "is in no operation; its last was barrier(), 1 s ago", .waits_for = {}};
}
StallDetector::Doing waiting(int peer, const std::string& call = "barrier()") {
  return {.what = "waits for rank " + std::to_string(peer) + " in " + call,
          .waits_for = {peer},
          .idle = false};
}
StallDetector::Doing leaving() {
  return {.what = "is leaving the world", .waits_for = {}, .leaving = true};
}

class Stalls : public testing::Test {
 protected:
  void make(int ranks) {
    room.notes.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      transports.push_back(std::make_unique<NotesOnly>(room, rank));
      detectors.push_back(std::make_unique<StallDetector>(*transports.back()));
      hosts.push_back("h" + std::to_string(rank));
    }
    for (auto& detector : detectors) detector->set_hosts(hosts);
  }
  StallDetector& rank(int rank) { return *detectors.at(static_cast<std::size_t>(rank)); }
  std::size_t notes(int rank) { return room.notes.at(static_cast<std::size_t>(rank)).size(); }

  void begin(std::chrono::duration<double> timeout, std::vector<int> missing) {
    wait.timeout = timeout;
    wait.missing = std::move(missing);
    timer.emplace(rank(0).now(), timeout);
  }
  // As the engine of rank 0, which looks all the time, does for so long. The others do nothing.
  std::optional<std::string> pass(Clock::duration time) {
    const auto end = room.time + time;
    while (true) {
      if (auto heard = rank(0).poll(waiting_for_missing())) return heard;
      if (room.time >= timer->next_question) {
        if (auto reason = rank(0).examine(*timer, wait)) return reason;
      }
      if (room.time >= end) return std::nullopt;
      room.time += 10ms;
    }
  }
  std::function<StallDetector::Doing()> waiting_for_missing() {
    return [this] { return waiting(wait.missing.front(), wait.call); };
  }
  // The rank reads what it was asked, and answers.
  void answer(int from, const StallDetector::Doing& doing) {
    EXPECT_EQ(rank(from).poll_now([&] { return doing; }), std::nullopt);
  }

  Room room;
  std::vector<std::unique_ptr<NotesOnly>> transports;
  std::vector<std::unique_ptr<StallDetector>> detectors;
  std::vector<std::string> hosts;
  StallDetector::Wait wait{.call = "barrier(), key 3", .missing = {}, .timeout = 300s};
  std::optional<StallTimer> timer;
};

TEST_F(Stalls, MissingPeersAreAskedEveryTwoSeconds) {
  make(3);
  begin(300s, {2});
  EXPECT_EQ(pass(1990ms), std::nullopt);
  EXPECT_EQ(notes(2), 0u);
  EXPECT_EQ(pass(10ms), std::nullopt);
  EXPECT_EQ(notes(2), 1u);
  for (std::size_t asked = 2; asked <= 100; ++asked) {
    EXPECT_EQ(pass(2s), std::nullopt);
    EXPECT_EQ(notes(2), asked);
  }
  EXPECT_EQ(notes(1), 0u);
}

TEST_F(Stalls, ALongWaitIsNoFailureBeforeItsTimeIsOver) {
  make(2);
  begin(3600s, {1});
  for (int minute = 0; minute < 60; ++minute) {
    EXPECT_EQ(pass(60s), std::nullopt);
    answer(1, idle());
  }
}

TEST_F(Stalls, WhoDoesNotAnswerIsNamedThreeSecondsAfterTheTimeout) {
  make(2);
  begin(10s, {1});
  EXPECT_EQ(pass(13s), std::nullopt);
  const std::string reason = pass(20ms).value_or("none");
  EXPECT_EQ(
      reason,
      "rank 0 on host h0: barrier(), key 3 is not done after 13.0 s, waiting for rank 1: rank "
      "1 on host h1 does not answer (stuck in its own code, or stopped)");
}

// The last question goes to all, the silent come first, and those in no operation before others.
TEST_F(Stalls, WhatAllDoIsSaid) {
  make(4);
  begin(1s, {1});
  EXPECT_EQ(pass(1010ms), std::nullopt);
  ASSERT_TRUE(timer->overdue);
  answer(3, idle());
  answer(2, waiting(1));
  EXPECT_EQ(pass(2990ms), std::nullopt);
  const std::string reason = pass(10ms).value_or("none");
  EXPECT_EQ(reason.substr(reason.find("waiting for")),
            "waiting for rank 1: rank 1 on host h1 does not answer (stuck in its own code, or "
            "stopped); rank 3 on host h3 is in no operation; its last was barrier(), 1 s ago; rank "
            "2 on host h2 waits for rank 1 in barrier()");
}

TEST_F(Stalls, AnAnswerCountsUntilTheLastMoment) {
  make(2);
  begin(1s, {1});
  EXPECT_EQ(pass(1010ms), std::nullopt);
  ASSERT_TRUE(timer->overdue);
  EXPECT_EQ(pass(2950ms), std::nullopt);
  answer(1, idle());
  EXPECT_NE(pass(1s).value_or("none").find("rank 1 on host h1 is in no operation"),
            std::string::npos);
}

// What a rank did before the last question says nothing of what it does now.
TEST_F(Stalls, AnEarlierAnswerDoesNotCount) {
  make(2);
  begin(5s, {1});
  EXPECT_EQ(pass(2s), std::nullopt);
  answer(1, idle());
  EXPECT_EQ(pass(3010ms), std::nullopt);
  ASSERT_TRUE(timer->overdue);
  EXPECT_NE(pass(4s).value_or("none").find("rank 1 on host h1 does not answer"), std::string::npos);
}

// Of two answers in a row, a second apart, no message on its way can change the last.
TEST_F(Stalls, ARankThatHasLeftIsFoundByTwoAnswers) {
  make(3);
  begin(300s, {2});
  EXPECT_EQ(pass(2s), std::nullopt);
  answer(2, leaving());
  EXPECT_EQ(pass(2s), std::nullopt);
  EXPECT_EQ(timer->bad_answers, 1);
  EXPECT_EQ(pass(990ms), std::nullopt);
  answer(2, leaving());
  EXPECT_EQ(pass(1s).value_or("none"),
            "rank 0 on host h0 waits in barrier(), key 3, but rank 2 on host h2 has ended its "
            "steps and left the world: ranks ran different numbers of steps");
}

TEST_F(Stalls, ARankThatIsNotLeavingAfterAllIsNoFailure) {
  make(2);
  begin(300s, {1});
  const auto pass_until_asked = [&] { return pass(timer->next_question - room.time); };
  EXPECT_EQ(pass_until_asked(), std::nullopt);
  for (int i = 0; i < 5; ++i) {
    answer(1, leaving());
    EXPECT_EQ(pass_until_asked(), std::nullopt);
    EXPECT_EQ(timer->bad_answers, 1);
    answer(1, waiting(0));
    EXPECT_EQ(pass_until_asked(), std::nullopt);
    EXPECT_EQ(timer->bad_answers, 0);
  }
}

// A rank that leaves asks all: any of them may wait for it.
TEST_F(Stalls, WhoLeavesIsToldWhoWaitsForIt) {
  make(3);
  begin(300s, {1});
  wait.leaving = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pass(2s), std::nullopt);
    answer(1, leaving());
    answer(2, waiting(0, "allreduce()"));
  }
  EXPECT_EQ(pass(2s).value_or("none"),
            "rank 2 on host h2 waits for rank 0 in allreduce(), but rank 0 on host h0 has ended "
            "its steps and is leaving the world: ranks ran different numbers of steps");
}

TEST_F(Stalls, OfSeveralReasonsTheFirstIsHeard) {
  make(3);
  begin(300s, {1});
  rank(2).announce_failure("first");
  rank(1).announce_failure("second");
  EXPECT_EQ(pass(0s), "first");
}

// Notes are looked for every 20 ms, and at once after a question.
TEST_F(Stalls, NotesAreReadInTime) {
  make(2);
  begin(300s, {1});
  EXPECT_EQ(pass(0s), std::nullopt);
  rank(1).announce_failure("late");
  EXPECT_EQ(pass(10ms), std::nullopt);
  EXPECT_EQ(pass(10ms), "late");
  rank(1).announce_failure("asked");
  EXPECT_EQ(rank(0).poll(idle), std::nullopt);
  EXPECT_EQ(rank(0).examine(*timer, wait), std::nullopt);
  EXPECT_EQ(rank(0).poll(idle), "asked");
}

// Stopped for longer than the timeout: what came meanwhile has to be read first.
TEST_F(Stalls, TimeInWhichNobodyLookedCountsALittle) {
  make(2);
  begin(300s, {1});
  const Clock::time_point start = room.time;
  timer->look(start + 500ms, 1s);
  EXPECT_EQ(timer->since, start);
  timer->look(start + 1h, 1s);
  EXPECT_EQ(timer->since, start + 1h - 1500ms);
  EXPECT_EQ(timer->next_question, timer->since + 2s);
  room.time = start + 1h;
  EXPECT_EQ(pass(290s), std::nullopt);
  EXPECT_FALSE(timer->overdue);
  EXPECT_EQ(pass(10s), std::nullopt);
  EXPECT_TRUE(timer->overdue);
}

TEST_F(Stalls, ATimeoutThatIsShorterThanTheFirstQuestionIsKept) {
  make(2);
  begin(100ms, {1});
  EXPECT_EQ(pass(90ms), std::nullopt);
  EXPECT_EQ(notes(1), 0u);
  EXPECT_EQ(pass(20ms), std::nullopt);
  EXPECT_TRUE(timer->overdue);
  EXPECT_GE(notes(1), 1u);
}

}  // namespace
}  // namespace convoy::comm
