#include "cli/training/signals.h"

#include <csignal>
#include <initializer_list>

namespace convoy::cli {
namespace {

// Written by a signal handler, so it can't be anything else than a global.
volatile std::sig_atomic_t came = 0;

void on_signal(int signal) {
  came = 1;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    const bool may_be_ignored = signal == SIGINT || signal == SIGHUP;
    if (!may_be_ignored || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_signal_came() { return came != 0; }

}  // namespace convoy::cli
