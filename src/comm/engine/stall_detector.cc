#include "comm/engine/stall_detector.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/units.h"

namespace convoy::comm {
namespace {

// A note is its kind, then flags (answers), then text.
enum Flags : std::uint8_t { kIdle = 1, kLeaving = 2, kWaitsForAsker = 4 };

std::vector<std::byte> make_note(NoteKind kind, std::uint8_t flags, const std::string& text) {
  std::vector<std::byte> note(2 + std::min(text.size(), Transport::kMaxNote - 2));
  note[0] = static_cast<std::byte>(kind);
  note[1] = static_cast<std::byte>(flags);
  if (note.size() > 2) std::memcpy(note.data() + 2, text.data(), note.size() - 2);
  return note;
}

using namespace std::chrono_literals;

Clock::duration ticks(std::chrono::duration<double> seconds) {
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

}  // namespace

std::string list_ranks(const std::vector<int>& ranks) {
  std::string s = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    s += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return s;
}

StallTimer::StallTimer(Clock::time_point now, std::chrono::duration<double> timeout)
    : looked(now), since(now), next_question(now + std::min<Clock::duration>(2s, ticks(timeout))) {}

void StallTimer::look(Clock::time_point now, Clock::duration longest) {
  const Clock::duration beyond = now - looked - longest;
  looked = now;
  if (beyond <= Clock::duration::zero()) return;
  since += beyond;
  next_question += beyond;
}

bool StallDetector::read(int from, const std::vector<std::byte>& note,
                         std::optional<std::string>& failure) {
  if (note.size() < 2) return false;
  const auto flags = static_cast<std::uint8_t>(note[1]);
  const std::string text(reinterpret_cast<const char*>(note.data()) + 2, note.size() - 2);
  switch (static_cast<NoteKind>(note[0])) {
    case NoteKind::question:
      return true;
    case NoteKind::answer:
      answers_[from] = {now(), (flags & kIdle) != 0, (flags & kLeaving) != 0,
                        (flags & kWaitsForAsker) != 0, text};
      return false;
    case NoteKind::failure:
      if (!failure) failure = text;
      return false;
  }
  return false;
}

void StallDetector::answer(int to, const Doing& doing) {
  const bool waits =
      std::find(doing.waits_for.begin(), doing.waits_for.end(), to) != doing.waits_for.end();
  const auto flags = static_cast<std::uint8_t>(
      (doing.idle ? kIdle : 0) | (doing.leaving ? kLeaving : 0) | (waits ? kWaitsForAsker : 0));
  root_.post_note(to, make_note(NoteKind::answer, flags, doing.what));
}

void StallDetector::ask(StallTimer& timer, const std::vector<int>& peers) {
  timer.asked_at = now();
  next_poll_ = {};
  if (peers.empty()) {
    for (int peer = 0; peer < root_.size(); ++peer) post_question(peer);
  } else {
    for (int peer : peers) post_question(peer);
  }
}

void StallDetector::post_question(int peer) {
  if (peer != root_.rank()) root_.post_note(peer, make_note(NoteKind::question, 0, ""));
}

void StallDetector::ask_all() {
  asked_all_at_ = now();
  next_poll_ = {};
  for (int peer = 0; peer < root_.size(); ++peer) post_question(peer);
}

void StallDetector::announce_failure(const std::string& reason) {
  for (int peer = 0; peer < root_.size(); ++peer) {
    if (peer != root_.rank()) root_.post_note(peer, make_note(NoteKind::failure, 0, reason));
  }
}

std::string StallDetector::name(int rank) const {
  std::string s = "rank " + std::to_string(rank);
  if (static_cast<std::size_t>(rank) < hosts_.size()) s += " on host " + hosts_[rank];
  return s;
}

const StallDetector::Answer* StallDetector::heard(int peer, Clock::time_point since) const {
  const auto answer = answers_.find(peer);
  return answer != answers_.end() && answer->second.at >= since ? &answer->second : nullptr;
}

std::string StallDetector::findings(Clock::time_point since) const {
  std::string silent, idle, busy;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : "; ") + item;
  };
  for (int peer = 0; peer < root_.size(); ++peer) {
    if (peer == root_.rank()) continue;
    const Answer* const answer = heard(peer, since);
    if (answer == nullptr)
      add(silent, name(peer) + " does not answer (stuck in its own code, or stopped)");
    else
      add(answer->idle || answer->leaving ? idle : busy, name(peer) + " " + answer->what);
  }
  std::string all = silent;
  if (!idle.empty()) add(all, idle);
  if (!busy.empty()) add(all, busy);
  return all;
}

std::optional<std::pair<int, std::string>> StallDetector::waiting_for_me(
    Clock::time_point since) const {
  for (const auto& [peer, answer] : answers_) {
    if (answer.at >= since && answer.waits_for_asker && !answer.leaving)
      return std::pair(peer, answer.what);
  }
  return std::nullopt;
}

std::optional<int> StallDetector::left_peer(const std::vector<int>& among,
                                            Clock::time_point since) const {
  for (int peer : among) {
    const Answer* const answer = heard(peer, since);
    if (answer != nullptr && answer->leaving) return peer;
  }
  return std::nullopt;
}

std::optional<std::string> StallDetector::difference_in_steps(const Wait& wait,
                                                              Clock::time_point since) const {
  const std::string me = name(root_.rank());
  if (wait.leaving) {
    const auto waiting = waiting_for_me(since);
    if (!waiting) return std::nullopt;
    return name(waiting->first) + " " + waiting->second + ", but " + me +
           " has ended its steps and is leaving the world: ranks ran different numbers of steps";
  }
  const auto left = left_peer(wait.missing, since);
  if (!left) return std::nullopt;
  return me + " waits in " + wait.call + ", but " + name(*left) +
         " has ended its steps and left the world: ranks ran different numbers of steps";
}

std::optional<std::string> StallDetector::examine(StallTimer& timer, const Wait& wait) {
  // Of as many answers in a row, a second apart, that say the same, no message that was on its way
  // can change the last.
  constexpr int kConvincing = 2;
  const auto time = now();
  if (timer.overdue) {
    const std::chrono::duration<double> waited = time - timer.since;
    return name(root_.rank()) + ": " + wait.call + " is not done after " +
           format_seconds(waited.count()) + ", waiting for " + list_ranks(wait.missing) + ": " +
           findings(timer.asked_at);
  }
  if (timer.asked) {
    const auto difference = difference_in_steps(wait, timer.asked_at);
    timer.bad_answers = difference ? timer.bad_answers + 1 : 0;
    if (timer.bad_answers >= kConvincing) return difference;
  }
  if (time - timer.since > wait.timeout) {
    timer.overdue = true;
    timer.next_question = time + 3s;
    ask(timer);
    return std::nullopt;
  }
  timer.asked = true;
  timer.next_question = std::min<Clock::time_point>(time + (timer.bad_answers > 0 ? 1s : 2s),
                                                    timer.since + ticks(wait.timeout) + 1ms);
  ask(timer, wait.leaving ? std::vector<int>{} : wait.missing);
  return std::nullopt;
}

}  // namespace convoy::comm
