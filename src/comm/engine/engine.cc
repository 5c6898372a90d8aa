#include "comm/engine/engine.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

// Yields for a few microseconds, since most answers come soon; then sleeps, longer and longer, so
// that more ranks than cores can live together.
class Backoff {
 public:
  explicit Backoff(std::chrono::microseconds longest) : longest_(longest) {}
  void pause() {
    if (yields_ < 50) {
      ++yields_;
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, longest_);
  }
  void reset() {
    yields_ = 0;
    sleep_ = 10us;
  }

 private:
  int yields_ = 0;
  std::chrono::microseconds sleep_ = 10us;
  std::chrono::microseconds longest_;
};

void collect_missing(const OperationState& op, const Suspension& suspension,
                     std::vector<int>& receiving, std::vector<int>& sending) {
  for (const Ticket& ticket : suspension.awaiting) {
    if (!ticket.pending()) continue;
    auto& list = ticket.sending() ? sending : receiving;
    const int peer = op.transport->world_rank(ticket.peer());
    if (std::find(list.begin(), list.end(), peer) == list.end()) list.push_back(peer);
  }
  if (suspension.work != nullptr) {
    std::vector<int> ranks;
    suspension.work->missing(ranks);
    for (int rank : ranks) receiving.push_back(op.transport->world_rank(rank));
  }
  for (const Branch& branch : suspension.branches)
    collect_missing(op, branch.suspension, receiving, sending);
}

// World ranks from which an operation lacks a message, or which have not taken one.
std::vector<int> missing_peers(const OperationState& op) {
  std::vector<int> receiving, sending;
  collect_missing(op, op.suspension, receiving, sending);
  return receiving.empty() ? sending : receiving;
}

bool advance_task(Suspension& suspension, const Task& task);

// Looks at everything that a task waits for; true if it can go on. Throws what one of them throws.
bool look(Suspension& suspension, bool& moved) {
  bool ready = suspension.counter == nullptr || *suspension.counter >= suspension.at_least;
  for (Ticket& ticket : suspension.awaiting) {
    if (!ticket.pending()) continue;
    if (ticket.poll())
      moved = true;
    else
      ready = false;
  }
  if (suspension.work != nullptr) {
    moved = suspension.work->advance() || moved;
    ready = ready && suspension.work->done();
  }
  for (Branch& branch : suspension.branches) {
    if (branch.task.done()) continue;
    moved = advance_task(branch.suspension, branch.task) || moved;
    if (!branch.task.done())
      ready = false;
    else if (branch.task.error())
      std::rethrow_exception(branch.task.error());
  }
  return ready;
}

// Runs a suspended task as far as it gets; true if anything moved. What it awaits throws there.
bool advance_task(Suspension& suspension, const Task& task) {
  bool moved = false;
  while (!task.done()) {
    try {
      if (!look(suspension, moved)) return moved;
    } catch (...) {
      suspension.error = std::current_exception();
    }
    moved = true;
    suspension.resume.resume();
  }
  suspension = {};
  return moved;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string s = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    s += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return s;
}

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

}  // namespace

Engine::Engine(std::shared_ptr<Transport> root, Options options)
    : root_(std::move(root)), options_(options), stalls_(*root_) {
  if (options_.progress_thread) thread_ = std::thread([this] { run_thread(); });
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  stopping_ = true;
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
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

void Engine::give_up(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_.empty()) fail(reason, true);
}

std::shared_ptr<OperationState> Engine::start(std::shared_ptr<Transport> transport, Call call,
                                              const std::function<Task(Io&)>& body) {
  auto op = std::make_shared<OperationState>(shared_from_this(), std::move(transport), call);
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.empty()) throw Failure(failed_);
    op->task = body(op->io);
    op->task.start(op->suspension);
    if (op->task.done()) {
      finish(*op, op->task.error());
    } else {
      in_flight_.push_back(op);
      flying_ = static_cast<int>(in_flight_.size());
    }
  }
  if (!op->done && waiters_ == 0) wake_.notify_one();
  return op;
}

bool Engine::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && pass();
}

bool Engine::pass() {
  bool moved = false;
  for (std::size_t i = 0; i < in_flight_.size() && failed_.empty(); ++i) {
    // A copy: finishing may be the last reference otherwise.
    const std::shared_ptr<OperationState> op = in_flight_[i];
    moved = advance_operation(*op) || moved;
  }
  const auto done = [](const auto& op) { return op->done.load(); };
  std::erase_if(in_flight_, done);
  flying_ = static_cast<int>(in_flight_.size());
  if (options_.guest) {
    root_->make_progress();
  } else if (failed_.empty()) {
    if (const auto reason = stalls_.poll([this] { return doing(); })) fail(*reason, false);
  }
  return moved;
}

bool Engine::advance_operation(OperationState& op) {
  if (op.done) return false;
  const bool moved = advance_task(op.suspension, op.task);
  if (!op.task.done()) return moved;
  finish(op, op.task.error());
  return true;
}

// An operation that ends in an error leaves its peers without their messages: the world has failed.
void Engine::finish(OperationState& op, std::exception_ptr error) {
  op.task = Task();
  op.suspension = {};
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      const std::string reason =
          stalls_.name(root_->rank()) + ": " + e.what() + " [in " + op.call.text() + "]";
      op.error = std::make_exception_ptr(Failure(reason));
      op.done = true;
      if (failed_.empty()) fail(reason, true);
      return;
    }
  }
  remember(op.call);
  op.done.store(true, std::memory_order_release);
}

void Engine::fail(const std::string& reason, bool announce) {
  failed_ = reason;
  if (announce) {
    if (!options_.guest) stalls_.announce_failure(reason);
    std::fprintf(stderr, "convoy: %s\n", reason.c_str());
  }
  for (const auto& op : in_flight_) {
    if (op->done) continue;
    op->task = Task();
    op->suspension = {};
    op->error = std::make_exception_ptr(Failure(reason));
    op->done.store(true, std::memory_order_release);
  }
  // Operations hold the engine: what their owners have forgotten must not hold each other for ever.
  in_flight_.clear();
  flying_ = 0;
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

void Engine::detect_stall(OperationState& op, StallTimer& timer) {
  const auto now = Clock::now();
  if (now < timer.next_question) return;
  const std::vector<int> missing = missing_peers(op);
  if (missing.empty()) return;  // about to go on
  const std::string me = stalls_.name(root_->rank());
  if (timer.overdue) {
    fail(me + ": " + op.call.text() + " is not done after " +
             format_seconds(seconds_since(timer.since)) + ", waiting for " + list_ranks(missing) +
             ": " + stalls_.findings(),
         true);
    return;
  }
  // Twice the same answer, a second apart: no message that was on its way can still change it.
  if (timer.rounds > 0) {
    const auto left = stalls_.left_peer(missing);
    const auto waiting = stalls_.waiting_for_me();
    const bool bad = closing_ ? waiting.has_value() : left.has_value();
    timer.rounds = bad ? timer.rounds + 1 : 0;
    if (timer.rounds > 2) {
      fail(
          closing_
              ? stalls_.name(waiting->first) + " " + waiting->second + ", but " + me +
                    " has ended its steps and is leaving the world: ranks ran different numbers of "
                    "steps"
              : me + " waits in " + op.call.text() + ", but " + stalls_.name(*left) +
                    " has ended its steps and left the world: ranks ran different numbers of steps",
          true);
      return;
    }
  }
  if (now - timer.since > options_.timeout) {
    timer.overdue = true;
    timer.next_question = now + 3s;
    stalls_.ask();
    return;
  }
  const bool suspicious = timer.rounds > 1;
  if (timer.rounds == 0) timer.rounds = 1;
  timer.next_question =
      std::min(now + (suspicious ? 1s : 2s),
               timer.since + std::chrono::duration_cast<Clock::duration>(options_.timeout) + 1ms);
  stalls_.ask(closing_ ? std::vector<int>{} : missing);
}

void Engine::wait(OperationState& op) {
  if (!op.done.load(std::memory_order_acquire)) {
    ++waiters_;
    Backoff backoff(200us);
    StallTimer timer;
    timer.next_question =
        std::min(timer.next_question,
                 timer.since + std::chrono::duration_cast<Clock::duration>(options_.timeout));
    while (!op.done.load(std::memory_order_acquire)) {
      bool moved = false;
      if (std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
        moved = pass();
        if (!options_.guest && !op.done && failed_.empty()) detect_stall(op, timer);
        if (!moved && !op.done) moved = op.transport->await_message();
      }
      if (moved)
        backoff.reset();
      else if (!op.done)
        backoff.pause();
    }
    if (--waiters_ == 0 && flying_ > 0) wake_.notify_one();
  }
  if (op.error) std::rethrow_exception(op.error);
}

bool Engine::done(OperationState& op) {
  if (!op.done.load(std::memory_order_acquire)) {
    advance();
    if (!op.done.load(std::memory_order_acquire)) return false;
  }
  if (op.error) std::rethrow_exception(op.error);
  return true;
}

void Engine::cancel(OperationState& op) {
  const std::lock_guard lock(mutex_);
  if (op.done) return;
  op.task = Task();
  op.suspension = {};
  op.error = std::make_exception_ptr(Failure("the operation was abandoned: " + op.call.text()));
  op.done = true;
  std::erase_if(in_flight_, [&](const auto& other) { return other.get() == &op; });
  flying_ = static_cast<int>(in_flight_.size());
}

void Engine::close(Call call, const std::function<Task(Io&)>& barrier) {
  while (flying_ > 0) {  // what the caller started and did not wait for
    std::shared_ptr<OperationState> op;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(in_flight_, [](const auto& other) { return other->done.load(); });
      flying_ = static_cast<int>(in_flight_.size());
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
