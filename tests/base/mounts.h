// Threads that see other file systems than the rest of the process; needs the privilege to mount.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace convoy::test {

// Runs `body` on a thread that has an empty tmpfs of so many bytes at `place`, and so have the
// threads and processes that it starts. Skips the test where that is not allowed.
template <class F>
void with_mount(const char* place, const std::string& bytes, F&& body) {
  std::string problem;
  std::thread([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", place, "tmpfs", 0, ("size=" + bytes).c_str()) != 0) {
      problem = std::strerror(errno);
      return;
    }
    body();
  }).join();
  if (!problem.empty()) GTEST_SKIP() << "needs a mount namespace of its own: " << problem;
}

template <class F>
void with_little_shared_memory(const std::string& bytes, F&& body) {
  with_mount("/dev/shm", bytes, std::forward<F>(body));
}

}  // namespace convoy::test
