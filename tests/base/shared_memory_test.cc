// Memory that processes share. Ranks are processes.
#include "convoy/base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/effort.h"
#include "tests/base/mounts.h"

namespace convoy {
namespace {

using test::with_little_shared_memory;
using test::with_mount;

void put(int socket, const std::string& text) {
  const std::size_t size = text.size();
  const std::string message = std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  if (send(socket, message.data(), message.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(message.size()))
    _exit(3);
}

std::string get(int socket) {
  std::size_t size = 0;
  if (read(socket, &size, sizeof size) != sizeof size) _exit(4);
  std::string text(size, ' ');
  if (size > 0 && recv(socket, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
    _exit(5);
  return text;
}

// Two ranks.
Gather gather_over(
    int socket, std::size_t index, std::function<void()> look = [] {}) {
  return [=](std::string_view mine) {
    look();
    std::vector<std::string> all(2);
    all[index] = mine;
    put(socket, all[index]);
    all[1 - index] = get(socket);
    look();
    return all;
  };
}

// Runs `body` as rank 1 in a process of its own, which must return true, and as rank 0 here.
template <class F>
void with_two_processes(F&& body) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    _exit(body(sockets[1], 1) ? 0 : 1);
  }
  close(sockets[1]);
  EXPECT_TRUE(body(sockets[0], 0));
  close(sockets[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Objects of these processes that have a name.
std::vector<std::string> names_of(std::initializer_list<pid_t> processes) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    for (const pid_t process : processes) {
      if (name.starts_with("convoy." + std::to_string(process) + ".")) found.push_back(name);
    }
  }
  return found;
}

std::size_t descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// Shares memory, and finds there what the other one has written.
bool share_and_compare(const Gather& gather, std::size_t index, SharedSize size) {
  std::string problem;
  SharedParts shared = share_memory(gather, {0, 1}, index, size, problem);
  if (!problem.empty() || shared.one_process) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    return false;
  }
  const std::span<std::byte> mine = shared.parts[index], theirs = shared.parts[1 - index];
  if (!shared.mapping->try_commit(mine.last(1))) return false;
  mine.front() = mine.back() = static_cast<std::byte>(index + 5);
  gather("");
  const bool same = theirs.front() == static_cast<std::byte>(6 - index) &&
                    theirs.back() == static_cast<std::byte>(6 - index) &&
                    theirs[theirs.size() / 2] == std::byte{0};
  gather("");
  return same;
}

// Whoever is killed, and when: what never has a name is gone with the last process.
TEST(SharedMemory, NeverHasANameNorKeepsADescriptor) {
  with_two_processes([&](int socket, std::size_t index) {
    bool named = false;
    const Gather gather = gather_over(socket, index, [&] {
      named = named || !names_of({getpid(), getppid()}).empty();
    });
    const std::size_t open = descriptors();
    const bool done = share_and_compare(gather, index, {1 << 20, 1 << 12});
    return done && !named && descriptors() == open;
  });
}

TEST(SharedMemory, LeavesNothingWhenProcessesAreKilled) {
  std::mt19937 random(1);
  for (int i = 0; i < test::kills(); ++i) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    std::array<pid_t, 2> children{};
    for (std::size_t index = 0; index < 2; ++index) {
      children[index] = fork();
      if (children[index] != 0) continue;
      for (;;) share_and_compare(gather_over(sockets[index], index), index, 1 << 16);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    close(sockets[0]);
    close(sockets[1]);
    EXPECT_EQ(names_of({children[0], children[1]}), std::vector<std::string>());
  }
}

// As in containers with process numbers of their own, but with one /dev/shm.
TEST(SharedMemory, WithoutTheOthersDescriptorsItHasANameForAMoment) {
  with_mount("/proc", "1m", [&] {
    with_two_processes([&](int socket, std::size_t index) {
      return share_and_compare(gather_over(socket, index), index, {1 << 20, 1 << 12}) &&
             names_of({getpid(), getppid()}).empty();
    });
  });
}

TEST(SharedMemory, AnAddressThatLeadsToSomethingElseIsRefused) {
  const auto mapping = Mapping::create(1 << 16, Mapping::Kind::unnamed);
  const std::string address = mapping->address();
  EXPECT_EQ(Mapping::open(address, 1 << 16)->bytes().size(), 1u << 16);
  EXPECT_THROW(Mapping::open(address, 1 << 17), Failure);
  // The same number of another object, as in another container.
  const auto other = Mapping::create(1 << 16, Mapping::Kind::unnamed);
  const std::string path = other->address().substr(other->address().find('/'));
  EXPECT_THROW(Mapping::open(address.substr(0, address.find('/')) + path, 1 << 16), Failure);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_THROW(Mapping::open("convoy/proc/self/fd/" + std::to_string(ends[0]), 1 << 16), Failure);
  close(ends[0]);
  close(ends[1]);
}

// They come more often than the kernel needs for many megabytes, but not for a few pages.
TEST(SharedMemory, SignalsDontKeepItFromMemory) {
  struct sigaction handler {};
  handler.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGALRM, &handler, &before);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  const auto mapping = Mapping::create(32 << 20, Mapping::Kind::unnamed);
  setitimer(ITIMER_REAL, &often, nullptr);
  EXPECT_NO_THROW(mapping->commit(0, 16 << 20));
  mapping->seal();
  EXPECT_TRUE(mapping->try_commit(mapping->bytes().last(16 << 20)));
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST(SharedMemory, ThatIsNotThereIsNotCommitted) {
  with_little_shared_memory("1m", [] {
    const auto mapping = Mapping::create(8 << 20, Mapping::Kind::unnamed);
    mapping->commit(0, 64 << 10);
    EXPECT_THROW(mapping->commit(0, 4 << 20), Failure);
    mapping->seal();
    EXPECT_FALSE(mapping->try_commit(mapping->bytes().subspan(4 << 20)));
    EXPECT_TRUE(mapping->try_commit(mapping->bytes().first(64 << 10)));
  });
}

std::size_t free_shared_memory() {
  struct statvfs info {};
  return statvfs("/dev/shm", &info) == 0 ? info.f_bavail * info.f_bsize : 0;
}

// Others may need what is left, and what is in use stays as it is.
TEST(SharedMemory, ThatIsNotEnoughStaysFree) {
  with_little_shared_memory("6m", [] {
    for (const bool sealed : {false, true}) {
      const auto mapping = Mapping::create(16 << 20, Mapping::Kind::unnamed);
      if (sealed) mapping->seal();
      const std::span<std::byte> bytes = mapping->bytes();
      // With gaps of all kinds between them.
      const std::vector<std::span<std::byte>> used = {
          bytes.first(4096), bytes.subspan(100 << 10, 8 << 10), bytes.subspan(112 << 10, 4096),
          bytes.subspan(116 << 10, 4096), bytes.subspan(5 << 20, 64 << 10)};
      for (std::size_t i = 0; i < used.size(); ++i) {
        ASSERT_TRUE(mapping->try_commit(used[i]));
        std::memset(used[i].data(), static_cast<int>(i + 1), used[i].size());
      }
      const std::size_t left = free_shared_memory();
      EXPECT_FALSE(mapping->try_commit(bytes));
      EXPECT_EQ(free_shared_memory(), left);
      EXPECT_FALSE(mapping->try_commit(bytes.subspan(112 << 10, 7 << 20)));
      EXPECT_EQ(free_shared_memory(), left);
      for (std::size_t i = 0; i < used.size(); ++i) {
        for (const std::byte byte : used[i]) ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
      }
      // To the last page of it.
      EXPECT_TRUE(mapping->try_commit(bytes.subspan(8 << 20, left)));
      EXPECT_EQ(free_shared_memory(), 0u);
      EXPECT_FALSE(mapping->try_commit(bytes.last(4096)));
      EXPECT_TRUE(mapping->try_commit(bytes.first(4096)));
    }
  });
}

}  // namespace
}  // namespace convoy
