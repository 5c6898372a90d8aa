// mpirun as a child of `convoy run`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace convoy::cli {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_;
};

struct Child {
  pid_t pid = 0;
  Descriptor standard_output;  // not open if it was not asked for
  Descriptor standard_error;
};

// Blocks these signals for this thread and returns a descriptor that delivers them.
Descriptor signal_descriptor(const std::vector<int>& signals);

// Starts arguments[0] (a path) in a process group of its own, with `variables` (NAME=value) added
// to its environment and no signal blocked. It receives SIGTERM when the calling thread ends,
// however that happens. A terminal on standard input is replaced by /dev/null, since a background
// group can't read it. Throws Failure if it can't be started.
Child start_child(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables, bool capture_output);

// Writes everything to a descriptor. False if nobody reads any more.
bool write_all(int fd, const std::string& bytes);

}  // namespace convoy::cli
