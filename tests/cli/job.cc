#include "tests/cli/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/launch/processes.h"
#include "convoy/base/clock.h"

namespace convoy::cli {
namespace {

std::string build_dir() {
  const char* dir = std::getenv("CONVOY_BINARY_DIR");
  return dir != nullptr ? dir : "build";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int rank_in(const std::string& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
    const std::size_t found = environment.find(name);
    if (found != std::string::npos)
      return std::atoi(environment.c_str() + found + std::string(name).size());
  }
  return -1;
}

bool is_zombie(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] == 'Z';
}

// Whether it may still have files open and locks, though it has no memory any more, and so no
// environment, which only kernel threads have as well; or though its first thread is a zombie: a
// killed process lets go of its files with the last of its threads.
bool is_exiting(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream words(stat.substr(name_end + 2));
  constexpr std::size_t kFlags = 6, kThreads = 17, kMemory = 20;
  constexpr unsigned long kKernelThread = 0x00200000;
  std::vector<std::string> fields;
  for (std::string word; fields.size() <= kMemory && words >> word;) fields.push_back(word);
  if (fields.size() <= kMemory) return false;
  if (is_zombie(stat)) return std::stoul(fields[kThreads]) > 1;
  return fields[kMemory] == "0" && (std::stoul(fields[kFlags]) & kKernelThread) == 0;
}

bool any_is_exiting() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) == 0)
      continue;
    if (is_exiting(read_file(entry.path().string() + "/stat"))) return true;
  }
  return false;
}

// tools/check_budgets.py counts what the gate starts. Lines of one write don't mix.
void count_start(const std::string& program, const std::vector<std::string>& arguments) {
  const char* path = std::getenv("CONVOY_TEST_COUNT");
  if (path == nullptr) return;
  const Descriptor file(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const std::string line = program.substr(program.rfind('/') + 1) +
                           (arguments.empty() ? "" : " " + arguments.front()) + "\n";
  if (write(file.get(), line.data(), line.size()) < 0) std::perror(path);
}

}  // namespace

std::string convoy_program() { return build_dir() + "/bin/convoy"; }

std::string rank_program() { return build_dir() + "/tests/cli_rank_program"; }

std::string job_program() { return build_dir() + "/tests/cli_job_program"; }

std::string server_program() { return build_dir() + "/tests/cli_server_program"; }

std::string last_line(const std::string& text) {
  if (text.empty()) return "";
  const std::size_t end = text.back() == '\n' ? text.size() - 1 : text.size();
  const std::size_t begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1));
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++found;
  return found;
}

Job::Job(const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
         const std::string& program)
    : begin_(Clock::now()) {
  mark_ = "CONVOY_TEST_MARK=" + std::to_string(getpid()) + "-" +
          std::to_string(Clock::now().time_since_epoch().count());
  count_start(program, arguments);
  Pipe out = make_pipe(), err = make_pipe();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(out.writing.get(), 1);
    dup2(err.writing.get(), 2);
    unsetenv("OMP_NUM_THREADS");                                        // ctest sets it
    for (const int number : {SIGINT, SIGHUP}) signal(number, SIG_DFL);  // however it was started
    putenv(mark_.data());
    for (const std::string& variable : variables) putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(126);
  }
  out_ = std::move(out.reading);
  err_ = std::move(err.reading);
}

Job::~Job() {
  for (const JobProcess& process : processes()) kill(process.pid, SIGKILL);
  if (result_.exit_status == -1) waitpid(pid_, nullptr, 0);
}

bool Job::collect(int timeout_ms) {
  std::array<pollfd, 2> ready{{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
  if (poll(ready.data(), ready.size(), timeout_ms) <= 0) return false;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (ready[i].revents == 0) continue;
    std::array<char, 65536> buffer;
    const ssize_t bytes = read(ready[i].fd, buffer.data(), buffer.size());
    if (bytes > 0) {
      (i == 0 ? result_.out : result_.err).append(buffer.data(), static_cast<std::size_t>(bytes));
    } else {
      (i == 0 ? out_ : err_).reset();
    }
  }
  return true;
}

bool Job::wait_for(const std::string& text, int times, Stream stream) {
  const auto begin = Clock::now();
  const std::string& said = stream == Stream::out ? result_.out : result_.err;
  const Descriptor& source = stream == Stream::out ? out_ : err_;
  while (count(said, text) < times) {
    if (seconds_since(begin) > test::patience_s() || !source.open()) return false;
    collect(50);
  }
  return true;
}

JobResult Job::finish(std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  int status = 0;
  while (Clock::now() < deadline) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      result_.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      result_.seconds = seconds_since(begin_);
      // What it has left running may hold these, too.
      while (collect(0)) {
      }
      break;
    }
    if (out_.open() || err_.open())
      collect(20);
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return result_;
}

std::vector<JobProcess> Job::processes() const {
  std::vector<JobProcess> found;
  DIR* proc = opendir("/proc");
  while (const dirent* entry = proc == nullptr ? nullptr : readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0) continue;
    const std::string folder = std::string("/proc/") + entry->d_name;
    const std::string environment = read_file(folder + "/environ");
    if (environment.find(mark_) == std::string::npos || is_zombie(read_file(folder + "/stat")))
      continue;
    JobProcess process{pid, "", arguments_of(pid), rank_in(environment)};
    if (!process.arguments.empty()) {
      process.name = process.arguments[0].substr(process.arguments[0].rfind('/') + 1);
    }
    found.push_back(process);
  }
  if (proc != nullptr) closedir(proc);
  return found;
}

std::vector<JobProcess> Job::processes(const std::string& name) const {
  std::vector<JobProcess> found;
  for (const JobProcess& process : processes()) {
    if (process.name.rfind(name, 0) == 0) found.push_back(process);
  }
  std::sort(found.begin(), found.end(),
            [](const JobProcess& a, const JobProcess& b) { return a.rank < b.rank; });
  return found;
}

double Job::wait_until_gone(double limit_s) const {
  const auto begin = Clock::now();
  while (seconds_since(begin) < limit_s) {
    // The program itself may be a zombie of ours, which processes() does not count.
    if (processes().empty() && !any_is_exiting()) return seconds_since(begin);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return -1;
}

}  // namespace convoy::cli
