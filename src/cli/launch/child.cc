#include "cli/launch/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "convoy/base/error.h"
#include "train/diverged.h"

namespace convoy::cli {

Descriptor signal_descriptor(const std::vector<int>& signals) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : signals) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  Descriptor descriptor(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor.open())
    throw Failure(std::string("cannot watch signals: ") + std::strerror(errno));
  return descriptor;
}

Descriptor signals_to_a_job() {
  signal(SIGCHLD, SIG_DFL);  // or the kernel would take the children's statuses away
  std::vector<int> signals{SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD};
  for (int number : {SIGINT, SIGHUP}) {
    // A signal that is blocked waits for its reader even if it is ignored.
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) signals.push_back(number);
  }
  return signal_descriptor(signals);
}

namespace {

// In the new process: only what is allowed between fork() and exec().
void take_streams(const ChildOptions& options, bool no_input, int output, int errors) {
  int input = options.input == ChildOptions::Input::given ? options.given_input : -1;
  if (no_input) input = open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
}

}  // namespace

Child start_child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  // Whoever has started this process may have ignored it.
  struct sigaction ended {};
  if (sigaction(SIGCHLD, nullptr, &ended) == 0 && ended.sa_handler == SIG_IGN)
    signal(SIGCHLD, SIG_DFL);
  Child child;
  Pipe output;
  if (options.capture_output) output = make_pipe();
  Pipe errors = make_pipe();
  Pipe outcome = make_pipe();

  // Everything that allocates happens before fork().
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const bool no_input =
      options.input == ChildOptions::Input::nothing ||
      (options.input == ChildOptions::Input::inherited && isatty(STDIN_FILENO) != 0);
  const pid_t parent = getpid();

  child.pid = fork();
  if (child.pid < 0) throw Failure(std::string("cannot start a process: ") + std::strerror(errno));
  if (child.pid == 0) {
    if (options.outlives_caller) {
      setsid();
    } else {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);  // it was gone before the line above
    }
    take_streams(options, no_input, output.writing.get(), errors.writing.get());
    for (const int descriptor : options.inherited) fcntl(descriptor, F_SETFD, 0);
    for (const std::string& variable : options.variables)
      putenv(const_cast<char*>(variable.c_str()));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    execv(argv[0], argv.data());
    const int error = errno;
    if (write(outcome.writing.get(), &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  // Whoever comes first, so that neither has to wait.
  if (!options.outlives_caller) setpgid(child.pid, child.pid);
  outcome.writing.reset();
  int error = 0;
  if (read(outcome.reading.get(), &error, sizeof error) == sizeof error) {
    waitpid(child.pid, nullptr, 0);
    throw Failure("cannot start " + arguments.front() + ": " + std::strerror(error));
  }
  child.standard_output = std::move(output.reading);
  child.standard_error = std::move(errors.reading);
  return child;
}

bool read_some(Descriptor& from, std::string& to) {
  if (!from.open()) return false;
  char buffer[4096];
  const ssize_t count = ::read(from.get(), buffer, sizeof buffer);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (count <= 0) {
    from.reset();
    return false;
  }
  to.append(buffer, static_cast<std::size_t>(count));
  return true;
}

void keep_end(std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 16;
  if (text.size() > 2 * kMost) text.erase(0, text.size() - kMost);
}

bool tells_of_divergence(const std::string& errors) {
  return errors.find(train::kDiverged) != std::string::npos;
}

bool write_all(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(fd, bytes.data() + done, bytes.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      // The terminal may have been made non-blocking by somebody else.
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace convoy::cli
