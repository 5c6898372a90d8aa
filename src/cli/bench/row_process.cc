#include "cli/bench/row_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr auto kAnswerDeadline = std::chrono::minutes(10);
constexpr auto kEndDeadline = std::chrono::seconds(10);
constexpr int kNotStarted = 127;  // as shells say it

// "NAME=value" strings of this process's environment with `changes` on top.
std::vector<std::string> changed_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : changes) replaced |= text.starts_with(name + "=");
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::string describe_end(int status, const std::string& program) {
  if (WIFSIGNALED(status)) return "was ended by " + describe_signal(WTERMSIG(status));
  if (WEXITSTATUS(status) == kNotStarted) return "can't be started: no program '" + program + "'";
  return "ended with status " + std::to_string(WEXITSTATUS(status)) + " instead of answering";
}

}  // namespace

RowProcess::RowProcess(std::string row, const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& environment)
    : row_(std::move(row)), program_(command.front()) {
  // Everything that allocates happens before the fork.
  std::vector<std::string> words = command;
  std::vector<std::string> settings = changed_environment(environment);
  const auto arguments = pointers(words);
  const auto variables = pointers(settings);
  Pipe input = make_pipe(), output = make_pipe();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Failure("row '" + row_ + "': can't fork: " + std::strerror(errno));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(input.reading.get(), STDIN_FILENO);
    dup2(output.writing.get(), STDOUT_FILENO);
    execvpe(arguments[0], arguments.data(), variables.data());
    _exit(kNotStarted);
  }
  to_ = std::move(input.writing);
  from_ = std::move(output.reading);
}

RowProcess::~RowProcess() {
  to_.reset();
  from_.reset();
  if (pid_ < 0) return;
  const auto deadline = Clock::now() + kEndDeadline;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

RowAnswer RowProcess::run(int steps) {
  const std::string line = std::to_string(steps) + "\n";
  // A program that has ended makes this a broken pipe; that must not end us.
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  const bool sent = write(to_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  sigaction(SIGPIPE, &before, nullptr);
  const std::string text = sent ? read_line() : "";
  if (text.empty()) {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    throw Failure("row '" + row_ + "' " + describe_end(status, program_));
  }
  try {
    const auto answer = nlohmann::json::parse(text);
    return {answer.at("seconds"), answer.at("losses")};
  } catch (const nlohmann::json::exception&) {
    throw Failure("row '" + row_ + "' answered '" + text.substr(0, 200) + "'");
  }
}

// Empty at the end of the program's output.
std::string RowProcess::read_line() {
  const auto deadline = Clock::now() + kAnswerDeadline;
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{from_.get(), POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) {
      kill(pid_, SIGKILL);
      throw Failure("row '" + row_ + "' did not answer within ten minutes");
    }
    char buffer[4096];
    const ssize_t count = read(from_.get(), buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) return "";
    if (count > 0) pending_.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace convoy::cli
