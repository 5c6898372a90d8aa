// Work that is done in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace convoy::server::host {

// Tasks, one after the other, by a thread of its own. Threads: any; the destructor by none of its
// tasks.
class Lane {
 public:
  using Task = std::function<void()>;

  // `failed` is called, by the thread that ran it, with what a task threw; the lane goes on.
  explicit Lane(std::function<void(const std::string& why)> failed);
  ~Lane();  // drops what has not begun, and waits for what has
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void add(Task task);
  // The same by the caller's thread, now, if nothing is under way or waits: whether it was so.
  // The task must not add to this lane and wait for it.
  bool run_if_idle(const Task& task);
  void clear();  // drops what has not begun
  void drain();  // waits until there is nothing left
  // Takes no more tasks, drops those that wait, and waits for the one that runs.
  void stop();

 private:
  void work();
  void run(const Task& task);

  const std::function<void(const std::string&)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<Task> tasks_;
  bool running_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace convoy::server::host
