#include "train/report/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// A folder of its own, removed with what is in it.
class Scratch {
 public:
  Scratch() {
    path_ = environment("TMPDIR", "/tmp") + "/convoy-report-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr)
      throw Failure("cannot make a folder like " + path_ + ": " + std::strerror(errno));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string at(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Its exit status, or -1; what it prints goes to files.
int spawn(const std::string& script, const std::string& out, const std::string& error) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kNew, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, error.c_str(), kNew, 0600);
  std::string name = "gnuplot", plain = "-d", file = script;
  const std::array<char*, 4> words{name.data(), plain.data(), file.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "gnuplot", &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed == ENOENT)
    throw Failure(
        "the pictures of a report are drawn by gnuplot, which is not installed: the "
        "package is gnuplot-nox (apt-get install gnuplot-nox), or gnuplot elsewhere");
  if (failed != 0) throw Failure(std::string("cannot start gnuplot: ") + std::strerror(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string run_gnuplot(const std::string& script) {
  const Scratch scratch;
  write_file_atomically(scratch.at("script"), script);
  const int status = spawn(scratch.at("script"), scratch.at("out"), scratch.at("error"));
  if (status == 0) return read_text_file(scratch.at("out"));
  std::string said = read_text_file(scratch.at("error"));
  for (char& c : said) {
    if (c == '\n') c = ' ';
  }
  throw Failure("gnuplot failed: " + said);
}

}  // namespace convoy::train
