// Finds out who is missing when an operation does not end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/engine/own_time.h"
#include "convoy/base/clock.h"
#include "convoy/comm/transport.h"

namespace convoy::comm {

// "rank 3", "ranks 0, 2"
std::string list_ranks(const std::vector<int>& ranks);

// The first byte of a note.
enum class NoteKind : std::uint8_t { question = 1, answer = 2, failure = 3 };

// How long somebody has waited for an operation, and what has been asked about it.
struct StallTimer {
  StallTimer(Clock::time_point now, std::chrono::duration<double> timeout);

  // Somebody looks whether the wait is over. Of the time since the last look at most `longest`
  // counts as waited: a process that is stopped and goes on has not waited meanwhile, and what has
  // come for it has yet to be read.
  void look(Clock::time_point now, Clock::duration longest);

  Clock::time_point looked;
  Clock::time_point since;
  Clock::time_point next_question;
  Clock::time_point asked_at;
  bool asked = false;
  int bad_answers = 0;   // in a row, all of the same kind
  bool overdue = false;  // all peers were asked, for the last word
};

// Ranks tell each other what they are doing in short notes beside the messages. A rank whose
// operation is overdue asks all; whoever is inside Convoy (waiting, or with a progress thread)
// answers; who does not answer is stuck in code of its own, or stopped. All functions run under the
// engine's lock.
class StallDetector {
 public:
  explicit StallDetector(Transport& root) : root_(root), time_(dynamic_cast<OwnTime*>(&root)) {}

  // The time that waits are measured in.
  Clock::time_point now() const { return time_ != nullptr ? time_->now() : Clock::now(); }

  // What this rank is doing, as others are told.
  struct Doing {
    std::string what;            // "waits for rank 2 in allreduce(...)"
    std::vector<int> waits_for;  // world ranks from whom the oldest operation lacks a message
    bool idle = true;            // in no operation
    bool leaving = false;        // at the end of its world
  };

  // Reads notes and answers questions. `doing` is evaluated only when somebody asks. Returns the
  // reason when a peer has announced that the world has failed.
  template <class F>
  std::optional<std::string> poll(F&& doing) {
    const auto time = now();
    if (time < next_poll_) return std::nullopt;
    next_poll_ = time + std::chrono::milliseconds(20);
    return poll_now(doing);
  }
  // Does so at once, however short a time ago it did last. Of several reasons it returns the one
  // that came first.
  template <class F>
  std::optional<std::string> poll_now(F&& doing) {
    std::optional<std::string> failure;
    while (auto note = root_.poll_note()) {
      if (read(note->first, note->second, failure)) answer(note->first, doing());
    }
    return failure;
  }

  // A wait that does not end.
  struct Wait {
    std::string call;
    std::vector<int> missing;  // world ranks; at least one
    bool leaving = false;      // of this rank, from its world
    std::chrono::duration<double> timeout;
  };
  // Asks the peers in question, when it is time to. Returns the reason when the wait can't end: the
  // timeout has passed, or ranks have run different numbers of steps.
  std::optional<std::string> examine(StallTimer& timer, const Wait& wait);

  // Asks all peers what they do, for who waits in no operation itself.
  void ask_all();
  // Whether one has said since then that it waits for this rank.
  bool is_awaited() const { return waiting_for_me(asked_all_at_).has_value(); }

  void announce_failure(const std::string& reason);
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  std::string name(int rank) const;

 private:
  // Asks these peers (none named: all) what they do; the answers come in through poll(). Several
  // waits may be asking: each goes by the answers since its own last question.
  void ask(StallTimer& timer, const std::vector<int>& peers = {});
  void post_question(int peer);

  // "rank 2 on host b does not answer; rank 1 on host a waits for ...": every peer, the silent
  // first.
  std::string findings(Clock::time_point since) const;
  // A peer that said it waits for this rank, and in what.
  std::optional<std::pair<int, std::string>> waiting_for_me(Clock::time_point since) const;
  // One of these peers that said it is leaving the world.
  std::optional<int> left_peer(const std::vector<int>& among, Clock::time_point since) const;
  // Why ranks that have been heard can't get along any more.
  std::optional<std::string> difference_in_steps(const Wait& wait, Clock::time_point since) const;

  struct Answer {
    Clock::time_point at;
    bool idle = false;
    bool leaving = false;
    bool waits_for_asker = false;
    std::string what;
  };
  bool read(int from, const std::vector<std::byte>& note, std::optional<std::string>& failure);
  void answer(int to, const Doing& doing);
  // What a peer has said since; null if nothing.
  const Answer* heard(int peer, Clock::time_point since) const;

  Transport& root_;
  OwnTime* const time_;  // null: the machine's
  Clock::time_point next_poll_{};
  Clock::time_point asked_all_at_{};
  std::map<int, Answer> answers_;
  std::vector<std::string> hosts_;
};

}  // namespace convoy::comm
