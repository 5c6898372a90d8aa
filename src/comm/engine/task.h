// Collectives as coroutines: straight-line code that the compiler turns into state machines.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "convoy/comm/transport.h"

namespace convoy::comm {

struct Branch;

// Something other than messages that an operation waits for. One thread at a time.
class Waiting {
 public:
  virtual ~Waiting() = default;
  // Does what can be done now, at most some ten microseconds of it; true if anything moved. Throws
  // what ends the operation.
  virtual bool advance() = 0;
  virtual bool done() const = 0;
  // Adds the ranks from which something is missing.
  virtual void missing(std::vector<int>& ranks) const = 0;
};

// What a suspended task waits for, and where it goes on: when all the tickets are done, all the
// branches have ended, the counter is high enough, and the other work is done; or when one of them
// has failed. Lives in OperationState, or in a Branch.
struct Suspension {
  std::coroutine_handle<> resume;
  std::span<Ticket> awaiting;
  std::span<Branch> branches;
  const std::size_t* counter = nullptr;
  std::size_t at_least = 0;
  Waiting* work = nullptr;
  std::exception_ptr error = {};  // for whoever awaits
};

// What an awaited thing needs to pass its error on to the task.
class Awaited {
 public:
  void await_resume() {
    if (suspension_ != nullptr && suspension_->error)
      std::rethrow_exception(std::exchange(suspension_->error, {}));
  }

 protected:
  void suspend(Suspension& suspension, Suspension with) {
    suspension_ = &suspension;
    suspension = std::move(with);
  }

 private:
  Suspension* suspension_ = nullptr;
};

// A step of an operation. Starts suspended; awaiting a Task runs it to its end. Exceptions pass to
// whoever awaits. A coroutine's parameters are copied into its frame, so pass buffers by value and
// the Io (which outlives every task of its operation) by reference.
class [[nodiscard]] Task {
 public:
  struct promise_type {
    Suspension* suspension = nullptr;
    std::coroutine_handle<> continuation;
    std::exception_ptr error;

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        auto next = self.promise().continuation;
        return next ? next : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // For the engine: the outermost task of an operation.
  void start(Suspension& suspension) {
    handle_.promise().suspension = &suspension;
    handle_.resume();
  }
  bool done() const { return handle_.done(); }
  std::exception_ptr error() const { return handle_.promise().error; }

  // co_await task
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> parent) noexcept {
    handle_.promise().suspension = parent.promise().suspension;
    handle_.promise().continuation = parent;
    return handle_;
  }
  void await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// co_await all(tickets): goes on when every ticket is done, at once if they are already.
class AllDone : public Awaited {
 public:
  explicit AllDone(std::span<Ticket> tickets) : tickets_(tickets) {}
  bool await_ready() {
    bool ready = true;
    for (Ticket& ticket : tickets_) ready = ticket.poll() && ready;
    return ready;
  }
  void await_suspend(std::coroutine_handle<Task::promise_type> self) {
    suspend(*self.promise().suspension, {self, tickets_, {}});
  }

 private:
  std::span<Ticket> tickets_;
};

inline AllDone all(std::span<Ticket> tickets) { return AllDone(tickets); }
inline AllDone one(Ticket& ticket) { return AllDone(std::span(&ticket, 1)); }

// A part of an operation that goes its own way: the colors of an allreduce wait for different
// peers, and none of them for another. Branches are resumed one at a time, so what they share needs
// no lock.
struct Branch {
  explicit Branch(Task task) : task(std::move(task)) {}
  Suspension suspension;
  Task task;  // after suspension, which its frame refers to: destroyed before it
};

// co_await branches(list): starts them all and goes on when all have ended. The list must not move
// meanwhile. The first error ends the operation.
class AllEnded : public Awaited {
 public:
  explicit AllEnded(std::span<Branch> branches) : branches_(branches) {}
  bool await_ready() {
    bool ended = true;
    for (Branch& branch : branches_) {
      branch.task.start(branch.suspension);
      if (!branch.task.done())
        ended = false;
      else if (branch.task.error())
        std::rethrow_exception(branch.task.error());
    }
    return ended;
  }
  void await_suspend(std::coroutine_handle<Task::promise_type> self) {
    suspend(*self.promise().suspension, {self, {}, branches_});
  }

 private:
  std::span<Branch> branches_;
};

inline AllEnded branches(std::span<Branch> list) { return AllEnded(list); }

// co_await reaches(counter, n): goes on when another branch has counted up to n.
class Reaches {
 public:
  Reaches(const std::size_t& counter, std::size_t at_least)
      : counter_(&counter), at_least_(at_least) {}
  bool await_ready() const { return *counter_ >= at_least_; }
  void await_suspend(std::coroutine_handle<Task::promise_type> self) {
    *self.promise().suspension = {self, {}, {}, counter_, at_least_};
  }
  void await_resume() noexcept {}

 private:
  const std::size_t* counter_;
  std::size_t at_least_;
};

inline Reaches reaches(const std::size_t& counter, std::size_t at_least) {
  return Reaches(counter, at_least);
}

// co_await end_of(work): goes on when it is done.
class Ended : public Awaited {
 public:
  explicit Ended(Waiting& work) : work_(work) {}
  bool await_ready() {
    work_.advance();
    return work_.done();
  }
  void await_suspend(std::coroutine_handle<Task::promise_type> self) {
    suspend(*self.promise().suspension, {self, {}, {}, nullptr, 0, &work_});
  }

 private:
  Waiting& work_;
};

inline Ended end_of(Waiting& work) { return Ended(work); }

}  // namespace convoy::comm
