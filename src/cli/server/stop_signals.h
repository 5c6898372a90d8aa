// How a process that serves is told to end.
#pragma once

#include <csignal>
#include <initializer_list>

namespace convoy::cli {

// SIGTERM and SIGINT, from now on, for those who wait here; they end nothing by themselves, not
// even after this object. SIGUSR1 and SIGUSR2, which reach all processes of a job that is told to
// write a checkpoint, are for others: they are ignored. REQUIRES: no other thread runs yet, so that
// all have it from this one.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    for (const int signal : {SIGUSR1, SIGUSR2}) std::signal(signal, SIG_IGN);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether one has come. One thread at a time.
  bool came() {
    const timespec now{};
    if (!came_) came_ = sigtimedwait(&set_, nullptr, &now) > 0;
    return came_;
  }
  void wait() {
    while (!came_) came_ = sigwaitinfo(&set_, nullptr) > 0;
  }

 private:
  sigset_t set_;
  bool came_ = false;
};

}  // namespace convoy::cli
