#include "server/host/lane.h"

#include <exception>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::host {

Lane::Lane(std::function<void(const std::string&)> failed)
    : failed_(std::move(failed)), thread_([this] { work(); }) {}

Lane::~Lane() { stop(); }

void Lane::run(const Task& task) {
  try {
    task();
  } catch (const std::exception& error) {
    failed_(message_of(error));
  }
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || (!tasks_.empty() && !running_); });
    if (stopped_) return;
    running_ = true;
    {
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      run(task);
    }  // what it holds ends without the lock
    lock.lock();
    running_ = false;
    if (tasks_.empty() || stopped_) idle_.notify_all();
  }
}

void Lane::add(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

bool Lane::run_if_idle(const Task& task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || running_ || !tasks_.empty()) return false;
    running_ = true;
  }
  run(task);
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (tasks_.empty()) {
    idle_.notify_all();
  } else {
    changed_.notify_one();
  }
  return true;
}

void Lane::clear() {
  std::deque<Task> dropped;  // ends without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(tasks_);
}

void Lane::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return stopped_ || (tasks_.empty() && !running_); });
}

void Lane::stop() {
  std::deque<Task> dropped;
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    changed_.notify_all();
    idle_.notify_all();
    idle_.wait(lock, [&] { return !running_; });
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace convoy::server::host
