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
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    if (signal != SIGINT || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

bool stop_signal_came() { return came != 0; }

}  // namespace convoy::cli
