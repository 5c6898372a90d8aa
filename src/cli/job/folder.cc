#include "cli/job/folder.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/launch/child.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};  // with a keeper that has nothing to wait for
constexpr std::chrono::milliseconds kKilled{500};     // with one that was killed

constexpr int kMostKeepersAtOnce = 10;

}  // namespace

JobFolder::JobFolder(std::string agent, const std::string& parent, const std::string& id)
    : agent_(std::move(agent)) {
  path_ = (std::filesystem::absolute(parent) / ("convoy-job-" + id)).string();
  const std::string answer = start_keeper("--make-folder");
  if (answer == "ok\n") return;
  waitpid(keeper_, nullptr, 0);
  keeper_ = 0;
  if (answer.empty()) {  // killed already; it may have come so far
    mkdir(path_.c_str(), 0700);
    replace_keeper();
    return;
  }
  throw UsageError("no folder for the job can be made in " + parent + ": " +
                   answer.substr(0, answer.find('\n')));
}

std::string JobFolder::start_keeper(const char* option) {
  Pipe leash = make_pipe();
  Child child = start_child({agent_, option, path_}, {.capture_output = true,
                                                      .input = ChildOptions::Input::given,
                                                      .given_input = leash.reading.get(),
                                                      .outlives_caller = true});
  keeper_ = child.pid;
  leash_ = std::move(leash.writing);
  std::string answer;
  std::array<char, 256> bytes;
  while (answer.empty() || answer.back() != '\n') {
    const ssize_t count = read(child.standard_output.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return answer;
}

void JobFolder::replace_keeper() {
  keeper_ = 0;
  // Without one, the folder stays only if this process is killed.
  for (int times = 0; times < kMostKeepersAtOnce; ++times) {
    try {
      const std::string answer = start_keeper("--keep-folder");
      if (answer == "ok\n") return;
      waitpid(keeper_, nullptr, 0);
      if (!answer.empty()) break;  // else it was killed before it could speak
    } catch (const Failure&) {
      break;
    }
  }
  keeper_ = 0;
}

void JobFolder::remove() {
  leash_.reset();
  const auto until = Clock::now() + kPatience;
  while (keeper_ > 0 && waitpid(keeper_, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= until) kill(keeper_, SIGKILL);
    if (Clock::now() >= until + kKilled) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  keeper_ = 0;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace convoy::cli
