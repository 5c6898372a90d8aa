#include "server/client/exchange.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::client {
namespace {

using namespace std::chrono_literals;
using AnswerStatus = transport::Answer::Status;

constexpr auto kRequestAttempt = 10s;  // of a small request
// So much longer for each byte: no network that anybody trains over is slower.
constexpr std::uint64_t kBytesPerSecond = 1 << 20;
constexpr auto kFirstPause = 10ms;
constexpr auto kLongestPause = 500ms;
// A server that doesn't answer for so long may have been replaced.
constexpr auto kDoubt = 1s;
constexpr auto kSilence = 3s;  // and at the end of a job it may be gone
constexpr auto kRequestLook = 100ms;
// A server that refuses for so long won't think better of it.
constexpr auto kRefusal = 5s;

}  // namespace

Exchange::Exchange(Directory& directory, Traffic& traffic, Settings settings)
    : directory_(directory), traffic_(traffic), settings_(std::move(settings)) {}

Exchange::~Exchange() {
  for (auto& [number, ask] : asks_) {
    if (ask.under_way) ask.channel->cancel(ask.call);
  }
}

void Exchange::ask(std::size_t tag, std::uint32_t shard, std::string_view method,
                   transport::Message request) {
  Ask& ask = asks_[++last_ask_];
  ask.tag = tag;
  ask.shard = shard;
  ask.method = method;
  ask.request = std::move(request);
  ask.began = Clock::now();
  send(last_ask_, ask);
}

void Exchange::send(std::uint64_t number, Ask& ask) {
  const Directory::Way way = directory_.to(ask.shard);
  ++ask.attempt;
  ask.server = way.server;
  ask.channel = way.channel;
  if (!way.channel) {
    directory_.refresh();
    again(ask, "where server " + std::to_string(way.server) + " is isn't known yet", kFirstPause);
    return;
  }
  if (ask.attempt > 1) traffic_.repeated();
  traffic_.sent(settings_.kind, ask.shard, ask.request.size());
  ask.under_way = true;
  ask.sent = Clock::now();
  const auto left = std::max<Clock::duration>(0s, ask.began + settings_.patience - ask.sent);
  const auto deadline = ask.sent + std::min<Clock::duration>(left, kRequestAttempt) +
                        std::chrono::microseconds(ask.request.size() * 1000000 / kBytesPerSecond);
  ask.call =
      way.channel->call(ask.method, ask.request, deadline,
                        [inbox = inbox_, number, attempt = ask.attempt](transport::Answer answer) {
                          const std::lock_guard lock(inbox->mutex);
                          inbox->events.push_back({number, attempt, std::move(answer)});
                          inbox->arrived.notify_one();
                        });
}

void Exchange::again(Ask& ask, std::string problem, Clock::duration first_pause) {
  const auto now = Clock::now();
  ask.under_way = false;
  ask.channel = nullptr;
  ask.problem = std::move(problem);
  if (now >= ask.began + settings_.patience) {
    throw Failure(settings_.what + ": shard " + std::to_string(ask.shard) + ": " + ask.problem);
  }
  ask.pause = std::clamp<Clock::duration>(2 * ask.pause, first_pause, kLongestPause);
  ask.next_try = std::min(now + ask.pause, ask.began + settings_.patience);
}

bool Exchange::take_answered(Ask& ask, const Event& event, Result& result) {
  calls::Answered answered;
  try {
    answered = calls::decode_answered(event.answer.message);
  } catch (const UsageError& error) {
    throw Failure(settings_.what + ": server " + std::to_string(ask.server) + ": " + error.what());
  }
  // Of an attempt that was given up, only what it has done counts.
  const bool current = ask.under_way && event.attempt == ask.attempt;
  switch (answered.outcome) {
    case calls::Outcome::done:
      break;
    case calls::Outcome::refused:
      if (!current) return false;
      break;
    case calls::Outcome::not_primary:
      if (!current) return false;
      directory_.not_primary(ask.shard, ask.server, answered.primary);
      again(ask, "server " + std::to_string(ask.server) + " is not its primary", kFirstPause);
      return false;
    case calls::Outcome::unknown:
    case calls::Outcome::busy:
      if (!current) return false;
      ask.repeated |= answered.outcome == calls::Outcome::unknown;
      again(ask,
            "server " + std::to_string(ask.server) +
                (answered.outcome == calls::Outcome::busy ? " is busy" : " doesn't know") +
                (answered.reason.empty() ? "" : ": " + answered.reason),
            kFirstPause);
      return false;
  }
  traffic_.received(settings_.kind, ask.shard, event.answer.message.size());
  result = {ask.tag, ask.shard, std::move(answered), ask.repeated};
  return true;
}

bool Exchange::take(Ask& ask, Event& event, Result& result) {
  if (event.answer.status == AnswerStatus::done) {
    ask.is_refused = false;
    return take_answered(ask, event, result);
  }
  ask.repeated |= event.answer.status != AnswerStatus::refused;
  if (!ask.under_way || event.attempt != ask.attempt) return false;
  if (event.answer.status == AnswerStatus::refused || event.answer.status == AnswerStatus::failed) {
    // Perhaps it is just ending, or one that ended and began again.
    if (!std::exchange(ask.is_refused, true)) ask.refused_since = Clock::now();
    if (Clock::now() >= ask.refused_since + kRefusal) {
      throw Failure(settings_.what + ": shard " + std::to_string(ask.shard) + ": " +
                    event.answer.problem);
    }
  }
  throw_if_ended(event.answer.problem);
  directory_.failed(ask.shard, ask.server);
  again(ask, event.answer.problem, kFirstPause);
  return false;
}

void Exchange::throw_if_ended(const std::string& problem) const {
  const std::string ended = settings_.ended ? settings_.ended() : "";
  if (ended.empty()) return;
  throw Failure(settings_.what + ": the job is over: " + ended + " (" + problem + ")");
}

// Sends what is due, and what waits for a server that is the primary no more.
void Exchange::move_on() {
  const auto now = Clock::now();
  for (auto& [number, ask] : asks_) {
    if (!ask.under_way) {
      if (ask.next_try <= now) send(number, ask);
    } else if (now >= ask.sent + kDoubt) {
      directory_.refresh();
      if (now >= ask.sent + kSilence) throw_if_ended("no answer");
      // Also the same one, if it has begun again elsewhere.
      const Directory::Way way = directory_.to(ask.shard);
      if (way.server != ask.server || way.channel != ask.channel) {
        ask.repeated = true;
        ask.channel->cancel(ask.call);
        ask.under_way = false;
        send(number, ask);
      }
    }
  }
}

Clock::time_point Exchange::next_event() const {
  const auto now = Clock::now();
  auto next = now + kRequestLook;
  for (const auto& [number, ask] : asks_) {
    if (!ask.under_way) next = std::min(next, ask.next_try);
  }
  return next;
}

Exchange::Result Exchange::next() {
  while (true) {
    if (settings_.check) settings_.check();
    std::deque<Event> events;
    {
      std::unique_lock lock(inbox_->mutex);
      inbox_->arrived.wait_until(lock, next_event(), [this] { return !inbox_->events.empty(); });
      if (!inbox_->events.empty()) {
        events.push_back(std::move(inbox_->events.front()));
        inbox_->events.pop_front();
      }
    }
    for (Event& event : events) {
      const auto found = asks_.find(event.ask);
      if (found == asks_.end()) continue;
      Result result;
      if (!take(found->second, event, result)) continue;
      asks_.erase(found);
      return result;
    }
    move_on();
  }
}

}  // namespace convoy::server::client
