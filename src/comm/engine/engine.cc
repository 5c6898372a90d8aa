#include "comm/engine/engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "comm/engine/backoff.h"
#include "comm/engine/quiet_thread.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

// Whoever waits looks all the time; whoever polls looks between steps of its own, which count too.
constexpr Clock::duration kLongestGapOfWaiting = 1s;
Clock::duration longest_gap_of_polling(std::chrono::duration<double> timeout) {
  return std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(timeout / 4, 10s));
}

}  // namespace

Engine::Engine(std::shared_ptr<Transport> root, Options options)
    : root_(std::move(root)), options_(options), stalls_(*root_) {
  if (options_.progress_thread) thread_ = quiet_thread([this] { run_thread(); });
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  stopping_ = true;
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  free_retired();
}

void Engine::set_hosts(std::vector<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  hosts_ = hosts;
  stalls_.set_hosts(std::move(hosts));
}

std::vector<std::string> Engine::hosts_of(const Transport& group) const {
  std::vector<std::string> names;
  for (int rank = 0; rank < group.size(); ++rank)
    names.push_back(hosts_.at(static_cast<std::size_t>(group.world_rank(rank))));
  return names;
}

std::string Engine::failure() {
  const std::lock_guard lock(mutex_);
  return failed_;
}

void Engine::give_up(const std::string& reason, bool aloud) {
  const std::lock_guard lock(mutex_);
  if (failed_.empty()) fail(reason, aloud ? Announce::aloud : Announce::to_peers);
}

bool Engine::is_awaited(Clock::duration patience) {
  // As in StallDetector::examine(): of two answers in a row that say the same, no message that was
  // on its way can change the last.
  constexpr int kConvincing = 2;
  constexpr auto kApart = 500ms, kLook = 10ms;
  const auto until = Clock::now() + patience;
  int answers = 0;
  for (bool asked = false; answers < kConvincing && Clock::now() < until; asked = true) {
    if (asked) {
      const std::lock_guard lock(mutex_);
      stalls_.ask_all();
    }
    // Those that have the same to say would have said it by then, most of the time.
    const auto next = Clock::now() + (asked ? kApart : kApart / 2);
    while (Clock::now() < next) {
      {
        const std::lock_guard lock(mutex_);
        pass();
        if (!failed_.empty()) return false;
      }
      std::this_thread::sleep_for(kLook);
    }
    const std::lock_guard lock(mutex_);
    answers = asked && stalls_.is_awaited() ? answers + 1 : 0;
  }
  return answers >= kConvincing;
}

std::shared_ptr<OperationState> Engine::start(Medium medium, Call call,
                                              const std::function<Task(Io&)>& body, By by) {
  auto op = std::make_shared<OperationState>(shared_from_this(), std::move(medium), call);
  const bool message = call.kind == Kind::send || call.kind == Kind::receive;
  // A message that isn't cut has its place before those of the next operation at once.
  op->in_turn = by == By::messages &&
                (!message || call.count * size_of(call.type) > op->medium.transport->most_bytes());
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.empty()) throw Failure(failed_);
    if (const auto last = last_.find(place_of(*op));
        last != last_.end() && !last->second->done &&
        (last->second->in_turn || last->second->behind)) {
      op->behind = last->second;
      op->body = body;
    } else {
      begin(*op, body);
    }
    if (!op->behind && op->task.done()) {
      finish(*op, op->task.error());
    } else {
      in_flight_.push_back(op);
      last_[place_of(*op)] = op;
      note_in_flight();
    }
  }
  if (!op->done && waiters_ == 0) wake_.notify_one();
  return op;
}

// Collectives have their lanes, and messages between two ranks in one direction theirs.
Engine::Place Engine::place_of(const OperationState& op) {
  const Call& call = op.call;
  int messages = -1;
  if (call.kind == Kind::send) messages = 2 * call.peer;
  if (call.kind == Kind::receive) messages = 2 * call.peer + 1;
  return {op.medium.transport.get(), call.match.channel, call.match.key, messages};
}

void Engine::begin(OperationState& op, const std::function<Task(Io&)>& body) {
  op.task = body(op.io);
  op.task.start(op.suspension);
}

void Engine::clear_done() {
  std::erase_if(in_flight_, [this](const auto& op) {
    if (!op->done) return false;
    if (const auto last = last_.find(place_of(*op)); last != last_.end() && last->second == op)
      last_.erase(last);
    return true;
  });
  note_in_flight();
}

// After a change of in_flight_.
void Engine::note_in_flight() {
  if (flying_ == 0 && !in_flight_.empty()) busy_since_ = Clock::now();
  if (flying_ > 0 && in_flight_.empty()) busy_seconds_ += seconds_since(busy_since_);
  flying_ = in_flight_.size();
}

double Engine::busy_seconds() {
  const std::lock_guard lock(mutex_);
  return busy_seconds_ + (in_flight_.empty() ? 0 : seconds_since(busy_since_));
}

std::shared_ptr<Transport> Engine::keep(std::unique_ptr<Transport> transport) {
  return {transport.release(), [engine = shared_from_this()](Transport* given_up) {
            const std::lock_guard lock(engine->retired_mutex_);
            engine->retired_.emplace_back(given_up);
            engine->any_retired_ = true;
          }};
}

void Engine::free_retired() {
  // In a failed world nobody can tell whether freeing one would wait for others.
  if (!any_retired_ || !failed_.empty()) return;
  std::vector<std::unique_ptr<Transport>> list;
  const std::lock_guard lock(retired_mutex_);
  list.swap(retired_);
  any_retired_ = false;
}

bool Engine::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && pass();
}

bool Engine::pass() {
  bool moved = false;
  free_retired();
  for (std::size_t i = 0; i < in_flight_.size() && failed_.empty(); ++i) {
    // A copy: finishing may be the last reference otherwise.
    const std::shared_ptr<OperationState> op = in_flight_[i];
    moved = advance_operation(*op) || moved;
  }
  clear_done();
  if (options_.guest) {
    root_->make_progress();
  } else if (failed_.empty()) {
    if (const auto reason = stalls_.poll([this] { return doing(); })) fail(*reason, Announce::no);
  }
  return moved;
}

bool Engine::advance_operation(OperationState& op) {
  if (op.done) return false;
  bool moved = true;
  if (!op.behind) {
    moved = comm::advance(op);
  } else {
    if (!op.behind->done) return false;
    op.behind.reset();
    try {
      begin(op, std::exchange(op.body, nullptr));
    } catch (...) {
      finish(op, std::current_exception());
      return true;
    }
  }
  if (!op.task.done()) return moved;
  finish(op, op.task.error());
  return true;
}

// What a peer has said of the failure that an error here may come from. Whoever gives up what it
// takes part in has said why, a moment before.
std::optional<std::string> Engine::announced_reason(bool withdrawn) {
  if (!failed_.empty()) return failed_;
  if (options_.guest) return std::nullopt;
  const auto deadline = Clock::now() + (withdrawn ? 200ms : 0ms);
  while (true) {
    if (auto reason = stalls_.poll_now([this] { return doing(); })) return reason;
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(1ms);
  }
}

// An operation that ends in an error leaves its peers without their messages: the world has failed.
void Engine::finish(OperationState& op, std::exception_ptr error) {
  op.task = Task();
  op.suspension = {};
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      const bool withdrawn = dynamic_cast<const Withdrawn*>(&e) != nullptr;
      const std::optional<std::string> told = announced_reason(withdrawn);
      const std::string reason = told.value_or(stalls_.name(root_->rank()) + ": " + e.what()) +
                                 " [in " + op.call.text() + "]";
      op.error = std::make_exception_ptr(Failure(reason));
      op.done = true;
      if (failed_.empty()) fail(told.value_or(reason), told ? Announce::no : Announce::aloud);
      return;
    }
  }
  remember(op.call);
  op.done.store(true, std::memory_order_release);
}

void Engine::fail(const std::string& reason, Announce announce) {
  failed_ = reason;
  if (announce != Announce::no && !options_.guest) stalls_.announce_failure(reason);
  if (announce == Announce::aloud) std::fprintf(stderr, "convoy: %s\n", reason.c_str());
  for (const auto& op : in_flight_) {
    if (op->done) continue;
    op->task = Task();
    op->suspension = {};
    op->behind.reset();
    op->body = nullptr;
    op->error = std::make_exception_ptr(Failure(reason));
    op->done.store(true, std::memory_order_release);
  }
  // Operations hold the engine: what their owners have forgotten must not hold each other for ever.
  in_flight_.clear();
  last_.clear();
  note_in_flight();
}

StallDetector::Doing Engine::doing() const {
  StallDetector::Doing doing;
  doing.leaving = closing_;
  const OperationState* oldest = nullptr;
  for (const auto& op : in_flight_) {
    if (!op->done && (oldest == nullptr || op->started < oldest->started)) oldest = op.get();
  }
  if (oldest == nullptr || closing_) {
    doing.what = (closing_ ? "is leaving the world" : "is in no operation") +
                 std::string("; its last was ") +
                 (last_finished_ ? last_finished_->text() : "nothing") + ", " +
                 format_seconds(seconds_since(last_finished_at_)) + " ago";
    return doing;
  }
  doing.idle = false;
  doing.waits_for = missing_peers(*oldest);
  doing.what = "waits for " + list_ranks(doing.waits_for) + " in " + oldest->call.text();
  return doing;
}

void Engine::detect_stall(OperationState& op, Clock::duration longest_gap) {
  if (options_.guest || op.done || !failed_.empty()) return;
  const auto now = stalls_.now();
  if (!op.timer) op.timer.emplace(now, options_.timeout);
  op.timer->look(now, longest_gap);
  if (now < op.timer->next_question) return;
  const std::vector<int> missing = missing_peers(whose_turn(op));
  if (missing.empty()) return;  // about to go on
  const auto reason =
      stalls_.examine(*op.timer, {op.call.text(), missing, closing_, options_.timeout});
  if (reason) fail(*reason, Announce::aloud);
}

void Engine::wait(OperationState& op) {
  if (!op.done.load(std::memory_order_acquire)) {
    ++waiters_;
    Backoff backoff(200us);
    while (!op.done.load(std::memory_order_acquire)) {
      bool moved = false;
      if (std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
        moved = pass();
        detect_stall(op, kLongestGapOfWaiting);
        if (!moved && !op.done) moved = op.medium.transport->await_message();
      }
      if (moved)
        backoff.reset();
      else if (!op.done)
        backoff.pause();
    }
    bool others = false;
    {
      // Under the lock, or the progress thread could miss it between its look and its sleep.
      const std::lock_guard lock(mutex_);
      others = --waiters_ == 0 && flying_ > 0;
    }
    if (others) wake_.notify_one();
  }
  if (op.error) std::rethrow_exception(op.error);
}

bool Engine::done(OperationState& op) {
  if (!op.done.load(std::memory_order_acquire)) {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
      pass();
      detect_stall(op, longest_gap_of_polling(options_.timeout));
    }
    if (!op.done.load(std::memory_order_acquire)) return false;
  }
  if (op.error) std::rethrow_exception(op.error);
  return true;
}

void Engine::cancel(OperationState& op) {
  // Peers that are in the middle of it read memory that goes out of scope next.
  constexpr auto kPatience = 250ms;
  const auto deadline = Clock::now() + kPatience;
  Backoff backoff(200us);
  while (!op.done.load(std::memory_order_acquire) && Clock::now() < deadline) {
    if (advance())
      backoff.reset();
    else
      backoff.pause();
  }
  const std::lock_guard lock(mutex_);
  if (op.done) return;
  // The peers' parts of it can't end any more, and the next call of the same match would be taken
  // for this one.
  fail(stalls_.name(root_->rank()) + ": an exception ended the scope of " + op.call.text() +
           " before it was done",
       Announce::aloud);
}

void Engine::close(Call call, const std::function<Task(Io&)>& barrier) {
  while (flying_ > 0) {  // what the caller started and did not wait for
    std::shared_ptr<OperationState> op;
    {
      const std::lock_guard lock(mutex_);
      clear_done();
      if (in_flight_.empty()) break;
      op = in_flight_.front();
    }
    wait(*op);
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  const auto op = start(root_, call, barrier);
  wait(*op);
}

void Engine::run_thread() {
  // The default slack of 50 us would double the short sleeps.
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  Backoff backoff(500us);
  while (!stopping_) {
    if (flying_ == 0 || waiters_ > 0) {
      // With nothing in flight there still may be a question from the watch of another rank.
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, 250ms, [this] { return stopping_ || (flying_ > 0 && waiters_ == 0); });
      if (!stopping_ && waiters_ == 0) pass();
      backoff.reset();
      continue;
    }
    if (advance())
      backoff.reset();
    else
      backoff.pause();
  }
}

}  // namespace convoy::comm
