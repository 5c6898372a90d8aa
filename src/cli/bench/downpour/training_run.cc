#include "cli/bench/downpour/training_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "cli/launch/child.h"
#include "cli/training/signals.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

// Of a training that was told to end: then it is told that nothing need be saved, and then killed.
constexpr double kFirstPatience = 10, kLastPatience = 30;
constexpr int kPause = 50;  // milliseconds

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

class Stopper {
 public:
  explicit Stopper(pid_t child) : child_(child) {}
  bool told() const { return stage_ > 0; }
  void look() {
    if (stage_ == 0 && stop_signal_came()) {
      began_ = Clock::now();
      next(SIGTERM, child_);
    } else if (stage_ == 1 && seconds_since(began_) > kFirstPatience) {
      next(SIGTERM, child_);
    } else if (stage_ == 2 && seconds_since(began_) > kLastPatience) {
      next(SIGKILL, -child_);
    }
  }

 private:
  void next(int signal, pid_t to) {
    ++stage_;
    ::kill(to, signal);
  }

  pid_t child_;
  int stage_ = 0;
  Clock::time_point began_;
};

}  // namespace

bool TrainingEnd::good() const { return !stopped && WIFEXITED(status) && WEXITSTATUS(status) == 0; }

bool TrainingEnd::diverged() const { return !stopped && tells_of_divergence(errors); }

std::string TrainingEnd::complaint() const {
  if (WIFSIGNALED(status)) return "ended by " + describe_signal(WTERMSIG(status));
  std::istringstream lines(errors);
  std::string last, own;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    // "[replica-0] convoy replica: ..."
    const std::size_t begin = line.starts_with('[') ? line.find("] ") : line.npos;
    if (begin != line.npos) line.erase(0, begin + 2);
    if (line.starts_with("convoy ") && !line.starts_with("convoy train: ")) own = line;
  }
  constexpr std::string_view kProgram = "convoy train: ";
  if (last.starts_with(kProgram)) last.erase(0, kProgram.size());
  if (!own.empty()) return own;
  return last.empty() ? "ended with status " + std::to_string(WEXITSTATUS(status)) : last;
}

TrainingEnd run_training(const std::vector<std::string>& words, const std::string& log) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), words.begin(), words.end());
  std::ofstream file(log, std::ios::binary | std::ios::trunc);
  if (!file) throw Failure("cannot write " + log);
  const auto began = Clock::now();
  Child child =
      start_child(command, {.capture_output = true, .input = ChildOptions::Input::nothing});
  for (const Descriptor* from : {&child.standard_output, &child.standard_error})
    fcntl(from->get(), F_SETFL, fcntl(from->get(), F_GETFL) | O_NONBLOCK);
  TrainingEnd end;
  Stopper stopper(child.pid);
  std::string output;
  const auto log_end = [&file](const std::string& text, std::size_t before) {
    file.write(text.data() + before, static_cast<std::streamsize>(text.size() - before)).flush();
  };
  const auto drain = [&](int timeout) {
    // A descriptor that is not open is -1, which poll() leaves out.
    std::array<pollfd, 2> wait{
        {{child.standard_output.get(), POLLIN, 0}, {child.standard_error.get(), POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), timeout) <= 0) return false;
    if (wait[0].revents != 0) {
      output.clear();
      if (read_some(child.standard_output, output)) log_end(output, 0);
    }
    const std::size_t before = end.errors.size();
    if (wait[1].revents != 0 && read_some(child.standard_error, end.errors)) {
      log_end(end.errors, before);
      keep_end(end.errors);
    }
    return true;
  };
  rusage used{};
  // Its end is its process's, whoever still holds its output.
  while (true) {
    const pid_t gone = wait4(child.pid, &end.status, WNOHANG, &used);
    if (gone == child.pid || (gone < 0 && errno != EINTR)) break;
    stopper.look();
    if (!drain(kPause) && !child.standard_output.open() && !child.standard_error.open())
      std::this_thread::sleep_for(std::chrono::milliseconds(kPause));
  }
  end.wall_s = seconds_since(began);
  end.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  end.stopped = stopper.told();
  while (drain(0)) continue;
  return end;
}

}  // namespace convoy::cli
