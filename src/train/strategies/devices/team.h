// The threads that drive the devices of a rank.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"

namespace convoy::train {

// A thread for each device, from the first to the last job, with so many threads of LibTorch's for
// what it computes. Casts of weights that autocast keeps are there until somebody clears them. One
// thread at a time.
class Team {
 public:
  using Job = std::function<void(std::size_t device)>;

  // What jobs have cost since somebody asked.
  struct Counts {
    std::uint64_t hand_overs = 0;  // jobs: at the end of each the devices wait for each other
    double wait_s = 0;             // so long, all devices together
  };

  // `rank` is only for what is said where a device fails. Throws Failure where the system gives no
  // thread.
  Team(std::size_t devices, int threads, int rank);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const { return devices_.size(); }

  // Is called where a device fails, with its name and why, in its thread and at once: so that
  // others don't wait for it. Set between jobs.
  void set_on_failure(std::function<void(const std::string& why)> tell) { tell_ = std::move(tell); }

  // Runs the job on every device, and `meanwhile` here; returns when all have ended. What a device
  // has thrown is thrown here: "device 1 of rank 0: ...". Of several failures it is the first
  // device's whose own it is (no parallel::OtherSourceEnded). A UsageError stays one; everything
  // else is a Failure.
  void run(const Job& job, const std::function<void()>& meanwhile = {});
  // Runs it on the first device, while the others wait.
  void run_on_first(const std::function<void()>& job);

  Counts take_counts();

 private:
  struct Device {
    std::thread thread;
    std::exception_ptr error;  // of the job at hand
    Clock::time_point ended;
  };

  void work(std::size_t device);
  void end();
  void fail(const std::string& why) const {
    if (tell_) tell_(why);
  }
  std::string name_of(std::size_t device) const;
  void throw_first() const;

  const int threads_, rank_;
  std::function<void(const std::string&)> tell_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Device> devices_;
  const Job* job_ = nullptr;
  std::uint64_t jobs_ = 0;
  std::size_t running_ = 0;  // or not there yet
  bool over_ = false;
  Counts counts_;
};

}  // namespace convoy::train
