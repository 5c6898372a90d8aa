#include "convoy/base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace convoy {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(Descriptor, ClosesWhatItOwnsOnce) {
  const int fd = ::open("/dev/null", O_RDONLY);
  {
    Descriptor first(fd);
    Descriptor second(std::move(first));
    EXPECT_FALSE(first.open());
    EXPECT_TRUE(is_open(fd));
    first = std::move(second);
    EXPECT_EQ(first.get(), fd);
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, AssignmentClosesTheOneBefore) {
  const int before = ::open("/dev/null", O_RDONLY);
  Descriptor descriptor(before);
  descriptor = Descriptor(::open("/dev/null", O_RDONLY));
  EXPECT_FALSE(is_open(before));
  const int kept = descriptor.release();
  EXPECT_FALSE(descriptor.open());
  EXPECT_TRUE(is_open(kept));
  ::close(kept);
}

TEST(Descriptor, ClosingLeavesErrnoAlone) {
  errno = ENOENT;
  { Descriptor bad(1 << 20); }  // close() says EBADF
  EXPECT_EQ(errno, ENOENT);
}

TEST(Descriptor, PipesAreNotInherited) {
  const Pipe pipe = make_pipe();
  ASSERT_EQ(::write(pipe.writing.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe.reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_NE(::fcntl(pipe.reading.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(pipe.writing.get(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace convoy
