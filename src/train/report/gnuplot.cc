#include "train/report/gnuplot.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::train {
namespace {

// A file in memory: it has no name that an interrupted report could leave anywhere.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text = "")
      : file_(::memfd_create("convoy-report", MFD_CLOEXEC)) {
    const int error = file_.open() ? write_all(file_.get(), std::as_bytes(std::span(text))) : errno;
    if (error != 0)
      throw Failure(std::string("cannot keep the pictures of a report in memory: ") +
                    std::strerror(error));
  }
  int descriptor() const { return file_.get(); }
  std::string text() const {
    return read_text_file("/proc/self/fd/" + std::to_string(file_.get()));
  }

 private:
  Descriptor file_;
};

// What waitpid() says of gnuplot's end.
int spawn(const MemoryFile& script, const MemoryFile& out, const MemoryFile& error) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, script.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, error.descriptor(), STDERR_FILENO);
  // As a file, which is at its beginning when it is opened.
  std::string name = "gnuplot", plain = "-d", file = "/dev/stdin";
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
    if (errno != EINTR)
      throw Failure(std::string("cannot wait for gnuplot: ") + std::strerror(errno));
  }
  return status;
}

}  // namespace

std::string run_gnuplot(const std::string& script) {
  const MemoryFile input(script), out, error;
  const int status = spawn(input, out, error);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return out.text();
  std::string said = error.text();
  for (char& c : said) {
    if (c == '\n') c = ' ';
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    throw Failure("gnuplot was ended by signal " + std::to_string(signal) + " (" +
                  ::strsignal(signal) + ")" + (said.empty() ? "" : ": " + said));
  }
  throw Failure("gnuplot failed with exit status " + std::to_string(WEXITSTATUS(status)) + ": " +
                said);
}

}  // namespace convoy::train
