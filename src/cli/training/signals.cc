#include "cli/training/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "cli/launch/report.h"

namespace convoy::cli {
namespace {

// Read and written by signal handlers, so these can't be anything else than globals. Any thread
// asks.
std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free);
const char* volatile last_words = nullptr;

void end_at_once(int) { end_to_be_started_again(last_words); }

void on_signal(int signal) {
  came = true;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

// The program holds it back until there is a handler.
void unblock_usr1() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// SIGINT and SIGHUP stay ignored if they are.
void handle_stop_signals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    const bool may_be_ignored = signal == SIGINT || signal == SIGHUP;
    if (!may_be_ignored || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  unblock_usr1();
}

}  // namespace

void end_at_stop_signals(const char* words) {
  last_words = words;
  handle_stop_signals(end_at_once);
}

void catch_stop_signals() { handle_stop_signals(on_signal); }

void end_to_be_started_again(const char* words) {
  if (words != nullptr) {
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, words, std::strlen(words));
  }
  _exit(kExitRequeue);
}

bool stop_signal_came() { return came; }

}  // namespace convoy::cli
