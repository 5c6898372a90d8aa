#include "server/client/heartbeat.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "server/service/coordinator_calls.h"

namespace convoy::server::client {
namespace {

constexpr std::chrono::milliseconds kAgain(50);  // between tries to say what has been reported

}  // namespace

void add(ReplicaReport& to, const ReplicaReport& report) {
  to.steps += report.steps;
  to.samples += report.samples;
  to.loss_sum += report.loss_sum;
  to.weight += report.weight;
  to.compute_s += report.compute_s;
  to.fetch_wait_s += report.fetch_wait_s;
  to.push_wait_s += report.push_wait_s;
  to.data_wait_s += report.data_wait_s;
  to.skipped = std::max(to.skipped, report.skipped);  // is a sum already
}

Heartbeat::Heartbeat(transport::Channel& coordinator, std::uint64_t client,
                     std::chrono::milliseconds lease, const convoy::Log& log)
    : coordinator_(coordinator), client_(client), lease_(lease), log_(log) {
  thread_ = std::thread([this] { run(); });
}

Heartbeat::~Heartbeat() { stop(std::chrono::milliseconds(0)); }

void Heartbeat::run() {
  const auto pause = std::max<Clock::duration>(lease_ / 3, std::chrono::milliseconds(5));
  std::unique_lock lock(state_->mutex);
  auto next = Clock::now();
  while (true) {
    state_->changed.wait_until(lock, next, [this] {
      const bool now = state_->at_once || state_->reports_at_once;
      return state_->stopping || (now && !state_->asking);
    });
    if (state_->stopping) return;
    if (!state_->asking) state_->at_once = false;
    next = Clock::now() + pause;
    if (!state_->asking && !state_->lost) say(lock);
  }
}

void Heartbeat::say(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(state_->answered, false)) next_beat();
  // What is pending comes behind a beat that nobody has answered yet.
  if (!state_->reported) state_->reports_at_once = false;
  const calls::Beat beat = state_->beat;
  state_->asking = true;
  const std::uint64_t number = ++state_->said;
  lock.unlock();
  coordinator_.call(
      std::string(calls::kBeat), calls::encode(beat), Clock::now() + lease_,
      [state = state_, log = log_, number, of = beat.number](transport::Answer answer) {
        const std::lock_guard lock(state->mutex);
        try {
          if (answer.status == transport::Answer::Status::done) {
            const calls::BeatAnswer said = calls::decode_beat_answer(answer.message);
            if (!said.known) state->lost = true;
            if (!said.ended.empty()) state->ended = said.ended;
            state->answered = true;
            state->heard = number;
          } else if (answer.status == transport::Answer::Status::failed) {
            state->refused = answer.problem;
            state->heard = number;
            state->last_refused = of;
          }
        } catch (const UsageError& error) {
          log.warning(error.what());
        }
        // say_reports() says when it is tried again.
        if (!state->answered) state->reports_at_once = false;
        state->asking = false;
        state->changed.notify_all();
      });
  lock.lock();
}

void Heartbeat::next_beat() {
  state_->beat = {client_, state_->beat.number + 1, std::exchange(state_->pending, {})};
  state_->beat_reports = std::exchange(state_->reported, false);
}

void Heartbeat::report(const ReplicaReport& report) {
  const std::lock_guard lock(state_->mutex);
  add(state_->pending, report);
  state_->reported = true;
}

void Heartbeat::say_reports(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  if (!state_->reported && (state_->answered || !state_->beat_reports)) return;
  const std::uint64_t last = state_->beat.number + (state_->reported ? 1 : 0);
  state_->last_refused = 0;  // of tries before
  const auto is_over = [this, last] {
    const std::uint64_t now = state_->beat.number;
    return state_->lost || state_->stopping || now > last || (now == last && state_->answered) ||
           state_->last_refused >= last;
  };
  const auto end = Clock::now() + patience;
  while (!is_over() && Clock::now() < end) {
    state_->reports_at_once = true;
    state_->changed.notify_all();
    state_->changed.wait_until(lock, std::min<Clock::time_point>(end, Clock::now() + kAgain),
                               is_over);
  }
}

bool Heartbeat::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

void Heartbeat::found_lost() {
  const std::lock_guard lock(state_->mutex);
  state_->lost = true;
}

bool Heartbeat::find_out_lost(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t before = state_->said;
  const auto end = Clock::now() + patience;
  while (!state_->lost && state_->heard <= before && !state_->stopping && Clock::now() < end) {
    // Also when one was said meanwhile that nobody has answered.
    state_->at_once = true;
    state_->changed.notify_all();
    const std::uint64_t said = state_->said;
    state_->changed.wait_until(lock, end, [&] {
      return state_->lost || state_->stopping || (state_->said > said && !state_->asking);
    });
  }
  return state_->lost;
}

std::string Heartbeat::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended;
}

std::string Heartbeat::refused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->refused;
}

std::vector<calls::Beat> Heartbeat::stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, patience, [this] { return !state_->asking; });
  std::vector<calls::Beat> left;
  if (!state_->answered) left.push_back(state_->beat);
  next_beat();
  left.push_back(state_->beat);
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  return left;
}

}  // namespace convoy::server::client
