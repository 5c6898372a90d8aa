// The keeper of a channel: the thread of its deadlines and connections, and of its end.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "server/transport/channel_core.h"

namespace convoy::server::transport {

ChannelCore::Expired ChannelCore::expire(Clock::time_point now) {
  Expired expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::uint64_t call = deadlines_.begin()->second;
    expired.calls.push_back(call);
    end(call, Answer::Status::timed_out, "deadline passed: " + unreachable());
  }
  if (expired.calls.empty()) return expired;
  std::deque<Outgoing> kept;
  for (Outgoing& request : queued_) {
    if (calls_.contains(request.call)) {
      kept.push_back(std::move(request));
    } else {
      expired.unsent.push_back(std::move(request));
    }
  }
  queued_ = std::move(kept);
  return expired;
}

Clock::time_point ChannelCore::next_event() const {
  Clock::time_point next = Clock::time_point::max();
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (state_ == State::idle) next = std::min(next, next_attempt_);
  if (state_ == State::connecting) next = std::min(next, attempt_ends_);
  if (state_ == State::ready) next = std::min(next, renew_at_);
  return next;
}

void ChannelCore::connect() {
  Hello hello;
  hello.identity = settings_.identity;
  hello.name = settings_.name;
  hello.boot = settings_.shared_memory ? settings_.boot : "";
  hello.limits = settings_.limits;
  std::shared_ptr<ClientSession> session;
  std::string problem;
  try {
    session = std::make_shared<ClientSession>(std::move(hello), weak_from_this(), crew_);
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      state_ = State::connecting;
      heard_for_ = last_call_;
      attempt_ends_ = Clock::now() + settings_.connect_timeout;
      session_ = session;
      ++sessions_;
    }
    connector_->connect(session);
    return;
  } catch (const std::exception& e) {
    problem = message_of(e);
  }
  if (session) on_ended(*session, problem, false);
}

void ChannelCore::diagnose() {
  const Connector::Diagnosis diagnosis = connector_->diagnose();
  std::deque<Outgoing> queued;  // ends after the lock
  const std::lock_guard lock(mutex_);
  if (diagnosis.problem.empty() || state_ != State::idle) return;
  problem_ = diagnosis.problem;
  if (!diagnosis.permanent) return;
  refused_ = true;
  changed_.notify_all();
  end_all(Answer::Status::refused,
          "server " + connector_->address() + " and this client don't come together: " + problem_);
  queued.swap(queued_);
}

void ChannelCore::keep() {
  // OpenSSL writes to sockets whose peer may have gone.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);

  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto now = Clock::now();
    Expired expired = expire(now);
    const auto without_lock = [&](auto&& body) {
      lock.unlock();
      body();
      lock.lock();
    };
    if (!due_.empty()) {
      const auto session = session_;
      auto due = take_due();
      without_lock([&] {
        expired.unsent.clear();
        for (const std::uint64_t call : expired.calls) {
          if (session) session->abandon(call);
        }
        run(std::move(due));
      });
    } else if (std::exchange(diagnose_, false)) {
      without_lock([&] { diagnose(); });
    } else if (state_ == State::idle && now >= next_attempt_) {
      without_lock([&] { connect(); });
    } else if (state_ == State::connecting && now >= attempt_ends_) {
      problem_ = "no answer within " +
                 std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                    settings_.connect_timeout)
                                    .count()) +
                 " ms";
      attempt_ends_ = Clock::time_point::max();
      const auto session = session_;
      without_lock([&] { session->close(); });
    } else if (state_ == State::ready && now >= renew_at_) {
      renew_at_ = Clock::time_point::max();
      renewing_ = !queued_.empty();  // else whoever waited for it has given up
      const auto session = renewing_ ? session_ : nullptr;
      without_lock([&] {
        expired.unsent.clear();
        if (session) session->close();
      });
    } else {
      const auto next = next_event();
      if (next == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next);
      }
    }
  }
  lock.unlock();
  shut_down();
}

void ChannelCore::shut_down() {
  {
    // An attempt may have been about to begin when the channel was closed.
    std::unique_lock lock(mutex_);
    if (const auto session = session_) {
      lock.unlock();
      session->close();
      lock.lock();
    }
    changed_.wait(lock, [&] { return sessions_ == 0; });
  }
  connector_->shut_down();
  crew_.join();
}

void ChannelCore::close() {
  std::vector<Ended> ended;
  std::deque<Outgoing> queued;
  std::shared_ptr<ClientSession> session;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    end_all(Answer::Status::closed, "the channel was closed");
    ended = take_due();
    queued.swap(queued_);
    session = session_;
    changed_.notify_all();
  }
  if (session) session->close();
  const int around = finish_lists_around();
  while (true) {
    run(std::move(ended));
    // Other threads' callbacks may still make calls, which end at once.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ <= around; });
    ended = take_due();
    if (ended.empty()) break;
  }
  // Called by one of the threads that the keeper waits for, it can't be waited for.
  if (around > 0) {
    keeper_.detach();
  } else {
    keeper_.join();
  }
}

}  // namespace convoy::server::transport
