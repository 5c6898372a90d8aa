#include "train/strategies/downpour/errand.h"

#include <utility>

namespace convoy::train {

Errand::Errand() : thread_([this] { run(); }) {}

Errand::~Errand() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Errand::start(std::function<void()> work) {
  started_ = true;
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    error_ = nullptr;
  }
  changed_.notify_all();
}

bool Errand::done() {
  if (!started_) return false;
  const std::lock_guard lock(mutex_);
  return !work_;
}

void Errand::finish() {
  if (!started_) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  started_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Errand::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || work_; });
    if (!work_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace convoy::train
