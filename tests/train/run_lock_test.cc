#include "train/checkpoint/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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

// Of owners, and of runs that meet one that is dead.
constexpr RunLock::Times kQuick{.beat_s = 0.02, .patience_s = 0.3};
// Of runs that meet an owner that is alive: however seldom it gets to a core, it shows a sign of
// life within this time, and they don't wait for longer than until then.
constexpr RunLock::Times kPatient{.beat_s = 0.02, .patience_s = 30};

std::string refusal(const std::string& folder) {
  return message_of<UsageError>([&] { RunLock(folder, nullptr, kPatient); });
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
    const RunLock lock(folder, nullptr, kQuick);
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
    const RunLock other(scratch.path("runs/other"), nullptr, kQuick);
    EXPECT_NO_THROW(lock.check());
  }
  EXPECT_FALSE(fs::exists(scratch.path("runs")));  // it was made for the lock alone
}

TEST(RunLock, LeavesAFolderInWhichSomethingIs) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  {
    const RunLock lock(folder, nullptr, kQuick);
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
  std::atomic<bool> alive{true};
  std::thread owner([&] {
    while (alive) {
      ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
      ::usleep(20'000);
    }
  });
  const std::string said = refusal(scratch.path());
  alive = false;
  owner.join();
  EXPECT_NE(said.find("'convoy train r.toml' (process 4242 on host node7, since 2024-05-01"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("if its host is gone for good, remove " + file), std::string::npos) << said;
  EXPECT_EQ(slurp(file), elsewhere());
  // Now it is dead.
  const RunLock lock(scratch.path(), nullptr, kQuick);
  EXPECT_NE(slurp(file).find(host_name()), std::string::npos);
}

TEST(RunLock, WhoeverLosesItHearsOfIt) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  std::optional<RunLock> lock(std::in_place, folder, nullptr, kQuick);
  fs::remove(folder + "/lock");
  ::usleep(200'000);
  EXPECT_NO_THROW(lock->check());  // nobody else is there
  // At once: between two writes the owner would find a name of nobody.
  spill(scratch.path("another"), elsewhere());
  fs::rename(scratch.path("another"), folder + "/lock");
  std::string said;
  const auto start = Clock::now();
  while (said.empty() && seconds_since(start) < test::patience_s()) {
    ::usleep(10'000);
    said = message_of<Failure>([&] { lock->check(); });
  }
  EXPECT_NE(said.find(folder + " was taken over by 'convoy train r.toml'"), std::string::npos);
  lock.reset();
  EXPECT_EQ(slurp(folder + "/lock"), elsewhere());
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
    RunLock lock(scratch.path(), nullptr, kQuick);
    fs::rename(scratch.path("lock"), scratch.path("kept"));
    fs::create_directory(scratch.path("lock"));
    ::usleep(200'000);
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
    const RunLock lock(scratch.path(), nullptr, kQuick);
    record = nlohmann::json::parse(slurp(file));
  }
  spill(file, record.dump());  // in this mount: its lock is gone, and so is its owner
  { const RunLock lock(scratch.path(), nullptr, {.beat_s = 5, .patience_s = 1e6}); }
  record["device"] = "another";
  spill(file, record.dump());
  std::atomic<bool> alive{true};
  std::thread owner([&] {
    while (alive) {
      ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
      ::usleep(20'000);
    }
  });
  EXPECT_NE(refusal(scratch.path()).find("is in use by"), std::string::npos);
  alive = false;
  owner.join();
  EXPECT_NO_THROW(RunLock(scratch.path(), nullptr, kQuick));
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
int get_it_without_locks(const std::string& folder, int runs, RunLock::Times times) {
  int start[2], result[2], end[2];
  if (::pipe(start) != 0 || ::pipe(result) != 0 || ::pipe(end) != 0) return -1;
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
  EXPECT_EQ(all.find('e'), std::string::npos);
  if (all.find('?') != std::string::npos) return -1;
  return static_cast<int>(std::count(all.begin(), all.end(), 'y'));
}

TEST(RunLock, OneOfThoseThatStartTogetherWhereThereAreNoLocks) {
  const Scratch scratch;
  const int got = get_it_without_locks(scratch.path("new"), 4, kPatient);
  if (got < 0) LEAVE_OUT("needs seccomp filters");
  EXPECT_EQ(got, 1);
  // What a dead owner has left is taken over by one of them, and so is a file without a name. Of
  // these runs each first waits whether the owner is alive; one that begins when another has taken
  // over meets a living one.
  constexpr RunLock::Times kBoth{.beat_s = 0.02, .patience_s = 2};
  fs::create_directory(scratch.path("left"));
  for (const std::string& text : {elsewhere(), std::string()}) {
    spill(scratch.path("left/lock"), text);
    EXPECT_EQ(get_it_without_locks(scratch.path("left"), 4, kBoth), 1);
  }
}

TEST(RunLock, DamagedRecordsAreNoObstacle) {
  for (const char* text : {"", "{", "[]", "{\"pid\": [1]}", "\xff\xfe"}) {
    const Scratch scratch;
    spill(scratch.path("lock"), text);
    EXPECT_NO_THROW(RunLock(scratch.path(), nullptr, {.beat_s = 5, .patience_s = 0.1})) << text;
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
