#include "train/checkpoint/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

constexpr RunLock::Times kQuick{.beat_s = 0.02, .patience_s = 0.6};

std::string refusal(const std::string& folder) {
  return message_of<UsageError>([&] { RunLock(folder, nullptr, kQuick); });
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
  spill(folder + "/lock", elsewhere());
  std::string said;
  for (int i = 0; i < 500 && said.empty(); ++i) {
    ::usleep(10'000);
    said = message_of<Failure>([&] { lock->check(); });
  }
  EXPECT_NE(said.find(folder + " was taken over by 'convoy train r.toml'"), std::string::npos);
  lock.reset();
  EXPECT_EQ(slurp(folder + "/lock"), elsewhere());
}

TEST(RunLock, DamagedRecordsAreNoObstacle) {
  for (const char* text : {"", "{", "[]", "{\"pid\": [1]}", "\xff\xfe"}) {
    const Scratch scratch;
    spill(scratch.path("lock"), text);
    EXPECT_NO_THROW(RunLock(scratch.path(), nullptr, kQuick)) << text;
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
