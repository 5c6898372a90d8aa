#include "train/checkpoint/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "tests/base/leave_out.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

// Shows no sign of life unless it is told to.
const RunLock::Times kSilent{.beat_s = 1e6};

// Time that is made up: it passes while a run waits for signs of life.
struct Waits {
  double seconds = 0;
  std::function<void()> then = [] {};  // what happens in each of them

  RunLock::Times times() {
    return {.wait = [this](double pause) {
      seconds += pause;
      then();
    }};
  }
};

std::string refusal(const std::string& folder, const RunLock::Times& times = {}) {
  return message_of<UsageError>([&] { RunLock(folder, nullptr, times); });
}

// A beat of an owner elsewhere. Two of them may come within a tick of the file system's clock.
void beat(const std::string& file) {
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  timespec times[2] = {status.st_atim, status.st_mtim};
  ++times[1].tv_sec;
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
}

// A record as of a run on another host.
std::string elsewhere() {
  return R"({"host": "node7", "pid": 4242, "boot": "another", "started": "2024-05-01 12:00:00 UTC",
             "command": "convoy train r.toml", "token": "1"})";
}

TEST(RunLock, OneAtATimeAndNothingIsLeft) {
  const Scratch scratch;
  const std::string folder = scratch.path("runs/mine");
  {
    const RunLock lock(folder, nullptr, kSilent);
    const auto owner = nlohmann::json::parse(slurp(folder + "/lock"));
    EXPECT_EQ(owner["host"], host_name());
    EXPECT_EQ(owner["pid"], ::getpid());
    const std::string said = refusal(folder);
    EXPECT_NE(said.find(folder + " is in use by '"), std::string::npos) << said;
    EXPECT_NE(said.find("(process " + std::to_string(::getpid()) + " on host " + host_name() +
                        ", since "),
              std::string::npos)
        << said;
    EXPECT_EQ(said.find("remove"), std::string::npos) << said;
    EXPECT_NE(refusal(folder + "/../mine/"), "");
    fs::create_directory_symlink(folder, scratch.path("link"));
    EXPECT_NE(refusal(scratch.path("link")), "");
    const RunLock other(scratch.path("runs/other"), nullptr, kSilent);
    EXPECT_NO_THROW(lock.check());
  }
  EXPECT_FALSE(fs::exists(scratch.path("runs")));  // it was made for the lock alone
}

TEST(RunLock, LeavesAFolderInWhichSomethingIs) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  {
    const RunLock lock(folder, nullptr, kSilent);
    spill(folder + "/metrics.jsonl", "");
  }
  EXPECT_EQ(test::entries(folder), 1u);
}

TEST(RunLock, AKilledOwnerIsNoObstacle) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(folder, nullptr, {});
    ::write(ready[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::string said = refusal(folder);
  EXPECT_NE(said.find("process " + std::to_string(child)), std::string::npos) << said;
  ::kill(child, SIGSTOP);  // it lives on, without a sign
  EXPECT_NE(refusal(folder), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder + "/lock"));
  // Without waiting: the patience of this one is longer than any test.
  const RunLock lock(folder, nullptr, {.beat_s = 5, .patience_s = 1e6});
  EXPECT_NE(slurp(folder + "/lock").find(std::to_string(::getpid())), std::string::npos);
}

// Where locks stay on their host, an owner elsewhere shows that it lives by renewing its file.
TEST(RunLock, AnOwnerElsewhereIsWatched) {
  const Scratch scratch;
  const std::string file = scratch.path("lock");
  spill(file, elsewhere());
  Waits alive;
  alive.then = [&] {
    if (alive.seconds > 20) beat(file);
  };
  const std::string said = refusal(scratch.path(), alive.times());
  EXPECT_EQ(alive.seconds, 21);
  EXPECT_NE(said.find("'convoy train r.toml' (process 4242 on host node7, since 2024-05-01"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("if its host is gone for good, remove " + file), std::string::npos) << said;
  EXPECT_EQ(slurp(file), elsewhere());
  // Now it is dead.
  Waits dead;
  const RunLock lock(scratch.path(), nullptr, dead.times());
  EXPECT_GE(dead.seconds, 30);
  EXPECT_LT(dead.seconds, 35);
  EXPECT_NE(slurp(file).find(host_name()), std::string::npos);
}

TEST(RunLock, AnOwnerThatBeatsInTheLastMomentIsAlive) {
  const Scratch scratch;
  const std::string file = scratch.path("lock");
  spill(file, elsewhere());
  Waits waits;
  waits.then = [&] {
    if (waits.seconds >= 30) beat(file);
  };
  EXPECT_NE(refusal(scratch.path(), waits.times()), "");
  EXPECT_EQ(waits.seconds, 30);
}

TEST(RunLock, WhoeverLosesItHearsOfIt) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  std::optional<RunLock> lock(std::in_place, folder, nullptr, kSilent);
  fs::remove(folder + "/lock");
  EXPECT_TRUE(lock->renew());
  EXPECT_NO_THROW(lock->check());  // nobody else is there
  // At once: between two writes the owner would find a name of nobody.
  spill(scratch.path("another"), elsewhere());
  fs::rename(scratch.path("another"), folder + "/lock");
  EXPECT_NO_THROW(lock->check());
  EXPECT_FALSE(lock->renew());
  EXPECT_TRUE(lock->lost());
  EXPECT_NE(message_of<Failure>([&] {
              lock->check();
            }).find(folder + " was taken over by 'convoy train r.toml'"),
            std::string::npos);
  lock.reset();
  EXPECT_EQ(slurp(folder + "/lock"), elsewhere());
}

// Whoever watches it sees each of its beats, which come by themselves.
TEST(RunLock, ItsOwnerRenewsItAgainAndAgain) {
  const Scratch scratch;
  const RunLock lock(scratch.path(), nullptr, {.beat_s = 0.01});
  const auto time = [&] { return fs::last_write_time(scratch.path("lock")); };
  for (int i = 0; i < 3; ++i) {
    const auto before = time();
    const auto start = Clock::now();
    while (time() == before && seconds_since(start) < test::patience_s()) ::usleep(5'000);
    EXPECT_NE(time(), before);
  }
}

TEST(RunLock, CanBeAskedToLookNow) {
  const Scratch scratch;
  RunLock lock(scratch.path(), nullptr, {.beat_s = 1e6, .patience_s = 1});
  EXPECT_NO_THROW(lock.confirm());
  fs::remove(scratch.path("lock"));
  spill(scratch.path("lock"), elsewhere());
  EXPECT_NE(
      message_of<Failure>([&] { lock.confirm(); }).find("taken over by 'convoy train r.toml'"),
      std::string::npos);
  EXPECT_THROW(lock.check(), Failure);
}

// An error of the disk names nobody. Reading a folder is one.
TEST(RunLock, AFileThatCannotBeReadIsNoOtherOwner) {
  const Scratch scratch;
  {
    RunLock lock(scratch.path(), nullptr, kSilent);
    fs::rename(scratch.path("lock"), scratch.path("kept"));
    fs::create_directory(scratch.path("lock"));
    EXPECT_TRUE(lock.renew());
    EXPECT_NO_THROW(lock.check());
    EXPECT_NO_THROW(lock.confirm());
    fs::remove(scratch.path("lock"));
    fs::rename(scratch.path("kept"), scratch.path("lock"));
  }
  EXPECT_FALSE(fs::exists(scratch.path("lock")));
}

// Two containers of one host that mount the same folder, each for itself, see no lock of the other.
TEST(RunLock, AnotherMountOnThisHostIsWatched) {
  const Scratch scratch;
  const std::string file = scratch.path("lock");
  nlohmann::json record;
  {
    const RunLock lock(scratch.path(), nullptr, kSilent);
    record = nlohmann::json::parse(slurp(file));
  }
  spill(file, record.dump());  // in this mount: its lock is gone, and so is its owner
  { const RunLock lock(scratch.path(), nullptr, {.beat_s = 5, .patience_s = 1e6}); }
  record["device"] = "another";
  spill(file, record.dump());
  Waits waits;
  waits.then = [&] { beat(file); };
  EXPECT_NE(refusal(scratch.path(), waits.times()).find("is in use by"), std::string::npos);
  waits.then = [] {};
  EXPECT_NO_THROW(RunLock(scratch.path(), nullptr, waits.times()));
}

// As on file systems that know no locks: fcntl(F_OFD_SETLK) says ENOSYS to this process.
bool forget_locks() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// How many of several runs that start at the same time get the folder; -1 if that can't be tried.
int get_it_without_locks(const std::string& folder, int runs) {
  int start[2], result[2], end[2];
  if (::pipe(start) != 0 || ::pipe(result) != 0 || ::pipe(end) != 0) return -1;
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return -1;
  auto* const owned = new (shared) std::atomic<bool>(false);
  RunLock::Times times{.beat_s = 0.01, .patience_s = 0.3};
  // An owner that is alive has the time for a beat, however long it waits for a core.
  times.wait = [&](double pause) {
    const auto time = [&] {
      struct stat status {};
      ::stat((folder + "/lock").c_str(), &status);
      return std::pair(status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    };
    const auto before = time();
    const auto start = Clock::now();
    do {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    } while (*owned && time() == before && seconds_since(start) < test::patience_s());
  };
  std::vector<pid_t> children;
  for (int i = 0; i < runs; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    char byte = 0;
    ::close(start[1]);
    ::close(end[1]);
    char said = forget_locks() ? 'n' : '?';
    ::read(start[0], &byte, 1);  // until all have started
    if (said == 'n') {
      try {
        const RunLock lock(folder, nullptr, times);
        *owned = true;
        ::write(result[1], "y", 1);
        ::read(end[0], &byte, 1);
        ::_exit(0);
      } catch (const UsageError& error) {
        if (std::string(error.what()).find("is in use by") == std::string::npos) said = 'e';
      }
    }
    ::write(result[1], &said, 1);
    ::_exit(0);
  }
  ::close(start[0]);
  ::close(start[1]);
  std::string all(static_cast<std::size_t>(runs), ' ');
  for (char& one : all) ::read(result[0], &one, 1);
  for (const int file : {end[0], end[1], result[0], result[1]}) ::close(file);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  ::munmap(shared, sizeof(std::atomic<bool>));
  EXPECT_EQ(all.find('e'), std::string::npos);
  if (all.find('?') != std::string::npos) return -1;
  return static_cast<int>(std::count(all.begin(), all.end(), 'y'));
}

TEST(RunLock, OneOfThoseThatStartTogetherWhereThereAreNoLocks) {
  const Scratch scratch;
  const int got = get_it_without_locks(scratch.path("new"), 4);
  if (got < 0) LEAVE_OUT("needs seccomp filters");
  EXPECT_EQ(got, 1);
  // What a dead owner has left is taken over by one of them, and so is a file without a name. Of
  // these runs each first waits whether the owner is alive; one that begins when another has taken
  // over meets a living one.
  fs::create_directory(scratch.path("left"));
  for (const std::string& text : {elsewhere(), std::string()}) {
    spill(scratch.path("left/lock"), text);
    EXPECT_EQ(get_it_without_locks(scratch.path("left"), 4), 1);
  }
}

TEST(RunLock, DamagedRecordsAreNoObstacle) {
  for (const char* text : {"", "{", "[]", "{\"pid\": [1]}", "\xff\xfe"}) {
    const Scratch scratch;
    spill(scratch.path("lock"), text);
    EXPECT_NO_THROW(RunLock(scratch.path(), nullptr, Waits().times())) << text;
  }
}

TEST(RunLock, FoldersThatCannotBeAreTheCallersMistake) {
  const Scratch scratch;
  spill(scratch.path("file"), "");
  for (const char* name : {"file", "file/run"}) {
    const std::string said = refusal(scratch.path(name));
    EXPECT_NE(said.find("cannot make the run folder " + scratch.path(name)), std::string::npos)
        << said;
    EXPECT_NE(said.find("output.folder"), std::string::npos) << said;
  }
  EXPECT_NE(refusal("/proc/none/run").find("cannot make the run folder"), std::string::npos);
  EXPECT_NE(refusal("/proc/self").find("cannot write /proc/self/lock"), std::string::npos);
}

}  // namespace
}  // namespace convoy::train
