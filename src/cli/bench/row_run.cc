#include "cli/bench/row_run.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "cli/launch/child.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

// Programs say what is wrong before their launcher says how they ended.
std::string complaint_of(const std::string& errors, int status) {
  std::istringstream lines(errors);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("convoy ")) {
      const std::size_t colon = line.find(": ");
      return colon == line.npos ? line : line.substr(colon + 2);
    }
    if (!line.empty()) last = line;
  }
  if (WIFSIGNALED(status)) return "it was ended by " + describe_signal(WTERMSIG(status));
  return last.empty() ? "it ended with status " + std::to_string(WEXITSTATUS(status)) : last;
}

}  // namespace

RowRun run_for_rows(const std::vector<std::string>& words) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), words.begin(), words.end());
  Child child =
      start_child(command, {.capture_output = true, .input = ChildOptions::Input::nothing});
  std::string output, errors;
  while (child.standard_output.open() || child.standard_error.open()) {
    // A descriptor that is not open is -1, which poll() leaves out.
    std::array<pollfd, 2> wait{
        {{child.standard_output.get(), POLLIN, 0}, {child.standard_error.get(), POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), -1) < 0) continue;
    if (wait[0].revents != 0) read_some(child.standard_output, output);
    const std::size_t before = errors.size();
    if (wait[1].revents != 0 && read_some(child.standard_error, errors))
      write_all(STDERR_FILENO, errors.substr(before));
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
  RowRun run;
  run.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    auto row = nlohmann::ordered_json::parse(line, nullptr, false);
    if (row.is_object()) run.rows.push_back(std::move(row));
  }
  if (run.exit_status != 0) run.complaint = complaint_of(errors, status);
  return run;
}

}  // namespace convoy::cli
