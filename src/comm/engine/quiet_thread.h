// Threads of Convoy's own inside of the user's program.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace convoy::comm {

// Starts a thread to which no signal is delivered but those that are about what a thread itself
// does: the program's handlers run in the program's threads, and a signal that all of these have
// blocked waits for sigwait(). The kernel picks any thread that has not blocked it.
template <class Body>
std::thread quiet_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
    sigdelset(&all, own);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  };
  // A thread begins with the mask of the one that starts it.
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const Restore restore{before};
  return std::thread(std::move(body));
}

}  // namespace convoy::comm
