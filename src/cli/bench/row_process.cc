#include "cli/bench/row_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr auto kEndDeadline = std::chrono::seconds(30);
constexpr auto kTermDeadline = std::chrono::seconds(10);  // after SIGTERM
constexpr int kNotStarted = 127;                          // as shells say it

// "NAME=value" strings of this process's environment with `changes` on top.
std::vector<std::string> changed_environment(const RowEnvironment& changes) {
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

RowAnswer parse_row_answer(const std::string& row, const std::string& text) {
  const auto answer = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_string())
    throw Failure("row '" + row + "': " + answer["error"].get<std::string>());
  try {
    return {answer.at("seconds"), answer.at("losses"), answer.value("torch", std::string())};
  } catch (const nlohmann::json::exception&) {
    throw Failure("row '" + row + "' answered '" + text.substr(0, 200) + "'");
  }
}

RowProcess::RowProcess(std::string row, const std::vector<std::string>& command,
                       const RowEnvironment& environment, const std::vector<int>& cores)
    : row_(std::move(row)), program_(command.front()) {
  // Everything that allocates happens before the fork.
  std::vector<std::string> words = command;
  std::vector<std::string> settings = changed_environment(environment);
  const auto arguments = pointers(words);
  const auto variables = pointers(settings);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &mask);
  Pipe input = make_pipe(), output = make_pipe();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Failure("row '" + row_ + "': can't fork: " + std::strerror(errno));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (!cores.empty()) sched_setaffinity(0, sizeof mask, &mask);
    dup2(input.reading.get(), STDIN_FILENO);
    dup2(output.writing.get(), STDOUT_FILENO);
    execvpe(arguments[0], arguments.data(), variables.data());
    _exit(kNotStarted);
  }
  channel_ = LineChannel(std::move(input.writing), std::move(output.reading));
}

RowProcess::~RowProcess() {
  channel_.close();
  wait_for_end();
}

// The program's status; what stays is told to end, since it may have processes of its own to end
// and files to remove, and then killed.
int RowProcess::wait_for_end() {
  if (pid_ < 0) return 0;
  const auto deadline = Clock::now() + kEndDeadline;
  bool told = false;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline && !std::exchange(told, true)) kill(pid_, SIGTERM);
    if (Clock::now() > deadline + kTermDeadline) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pid_ = -1;
  return status;
}

void RowProcess::give_up() {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

void RowProcess::tell_end() {
  if (pid_ < 0) throw Failure("row '" + row_ + "' has ended");
  throw Failure("row '" + row_ + "' " + describe_end(wait_for_end(), program_));
}

RowAnswer RowProcess::run(int steps) {
  ask(steps);
  return answer();
}

void RowProcess::ask(int steps) { channel_.write_line(std::to_string(steps)); }

RowAnswer RowProcess::answer(std::chrono::minutes patience) {
  std::string text;
  const LineChannel::Got got = channel_.read_line(text, Clock::now() + patience);
  if (got == LineChannel::Got::end) tell_end();
  if (got == LineChannel::Got::nothing) {
    kill(pid_, SIGKILL);
    throw Failure("row '" + row_ + "' did not answer within " + std::to_string(patience.count()) +
                  " minutes");
  }
  return parse_row_answer(row_, text);
}

}  // namespace convoy::cli
