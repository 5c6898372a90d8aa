// A file descriptor that closes itself.
#pragma once

#include <utility>

namespace convoy {

// Owns an open descriptor, or none. Closing it this way can't report an error: whoever has written
// and must know that it arrived syncs, or closes what release() gives. One thread at a time.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}  // what open(2) and the like gave
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const noexcept { return fd_; }
  bool open() const noexcept { return fd_ >= 0; }
  // Gives the descriptor up without closing it.
  int release() noexcept { return std::exchange(fd_, -1); }
  // Closes it. errno stays what it was.
  void reset() noexcept;

 private:
  int fd_ = -1;
};

// This is a pipe that programs started from here don't inherit. Throws Failure.
struct Pipe {
  Descriptor reading;
  Descriptor writing;
};
Pipe make_pipe();

}  // namespace convoy
