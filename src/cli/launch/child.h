// Programs as children of `convoy run` and `convoy job`.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

struct Child {
  pid_t pid = 0;
  Descriptor standard_output;  // not open if it was not asked for
  Descriptor standard_error;
};

// Blocks these signals for this thread and returns a descriptor that delivers them, also those that
// are ignored.
Descriptor signal_descriptor(const std::vector<int>& signals);

// Does so with the signals by which users speak to `convoy run` and `convoy job`: SIGTERM, SIGUSR1
// and SIGUSR2, and SIGINT and SIGHUP unless this process was started to ignore them (nohup, `&` in
// a script); and SIGCHLD, which is not ignored from then on.
Descriptor signals_to_a_job();

// At its end gives the thread back the signals that it had blocked, and no more.
class SignalMask {
 public:
  SignalMask() { sigprocmask(SIG_BLOCK, nullptr, &before_); }
  ~SignalMask() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t before_{};
};

struct ChildOptions {
  std::vector<std::string> variables = {};  // NAME=value, added to its environment
  bool capture_output = false;              // its standard output, too
  // Its standard input. A terminal is replaced by nothing (/dev/null), since a background group
  // can't read it.
  enum class Input { inherited, nothing, given };
  Input input = Input::inherited;
  int given_input = -1;             // the descriptor, with Input::given
  std::vector<int> inherited = {};  // descriptors that stay open in it
  // It starts a session of its own and lives on when the caller ends.
  bool outlives_caller = false;
};

// Starts arguments[0] (a path) in a process group of its own with no signal blocked. Unless it
// outlives the caller, it receives SIGTERM when the calling thread ends, however that happens.
// SIGCHLD is not ignored from then on, so that its status can be had. Throws Failure if it can't be
// started.
Child start_child(const std::vector<std::string>& arguments, const ChildOptions& options);

// Reads once what a child has written, to the end of `to`. False where there was nothing now, or
// there is no more: then the descriptor is closed.
bool read_some(Descriptor& from, std::string& to);
// Leaves the last 64 KiB at least.
void keep_end(std::string& text);
// Whether a training said on standard error that its loss became NaN or infinite.
bool tells_of_divergence(const std::string& errors);

// Writes everything to a descriptor. False if nobody reads any more.
bool write_all(int fd, const std::string& bytes);

}  // namespace convoy::cli
