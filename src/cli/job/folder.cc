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

using std::chrono::milliseconds;

constexpr milliseconds kPatience{2000};  // with a keeper that has nothing to wait for
constexpr milliseconds kKilled{500};     // with one that was killed
constexpr milliseconds kPause{20};       // before it is looked whether the job is to end

constexpr int kMostKeepersAtOnce = 10;

}  // namespace

JobFolder::JobFolder(std::string agent, const std::string& parent, const std::string& id,
                     std::function<bool()> interrupted)
    : agent_(std::move(agent)), interrupted_(std::move(interrupted)) {
  path_ = (std::filesystem::absolute(parent) / ("convoy-job-" + id)).string();
  const auto answer = start_keeper("--make-folder", Clock::time_point::max());
  if (!answer || *answer == "ok\n") return;
  kill_keeper();
  if (answer->empty()) {  // killed already; it may have come so far
    mkdir(path_.c_str(), 0700);
    replace_keeper();
    return;
  }
  throw UsageError("no folder for the job can be made in " + parent + ": " +
                   answer->substr(0, answer->find('\n')));
}

std::optional<std::string> JobFolder::start_keeper(const char* option, Clock::time_point until) {
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
    pollfd ready{child.standard_output.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(kPause.count())) <= 0) {
      if (interrupted_() || Clock::now() >= until) return std::nullopt;
      continue;
    }
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
      const auto answer = start_keeper("--keep-folder", Clock::now() + kPatience);
      if (!answer || *answer == "ok\n") return;  // one that is slow will do
      kill_keeper();
      if (!answer->empty()) break;  // else it was killed before it could speak
    } catch (const Failure&) {
      break;
    }
  }
  keeper_ = 0;
}

bool JobFolder::keeper_ends_within(milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (keeper_ > 0 && waitpid(keeper_, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  keeper_ = 0;
  return true;
}

bool JobFolder::kill_keeper() {
  if (keeper_ > 0) kill(keeper_, SIGKILL);
  return keeper_ends_within(kKilled);
}

bool JobFolder::remove() {
  leash_.reset();
  if (!keeper_ends_within(kPatience) && !kill_keeper()) return false;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  return true;
}

}  // namespace convoy::cli
