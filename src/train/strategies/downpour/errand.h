// A thread that does one thing at a time, beside the one that computes.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace convoy::train {

// Used by one thread.
class Errand {
 public:
  Errand();
  ~Errand();  // waits for what is under way
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  // REQUIRES: nothing is under way, and what there was has been finished.
  void start(std::function<void()> work);
  // Whether work was started and not finished yet.
  bool under_way() const { return started_; }
  // Whether finish() would not wait. False where nothing is under way.
  bool done();
  // Waits, and throws what the work threw. No effect where nothing is under way.
  void finish();

 private:
  void run();

  bool started_ = false;  // of the user's thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // under way
  std::exception_ptr error_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace convoy::train
