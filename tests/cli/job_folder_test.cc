// A job's folder whose keeper hangs, as it does where a file system does.
#include "cli/job/folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

// A program in place of the agent.
std::string agent(const test::Scratch& scratch, const std::string& script) {
  test::spill(scratch.path("agent"), "#!/bin/sh\n" + script);
  std::filesystem::permissions(scratch.path("agent"), std::filesystem::perms::owner_all);
  return scratch.path("agent");
}

bool never() { return false; }

TEST(JobFolder, IsNotWaitedForWhenTheJobIsToEnd) {
  const test::Scratch scratch;
  int asked = 0;
  JobFolder folder(agent(scratch, "exec sleep 1000\n"), scratch.path(), "1",
                   [&] { return ++asked == 3; });
  EXPECT_EQ(asked, 3);
  EXPECT_GT(folder.keeper(), 0);
  EXPECT_TRUE(folder.remove());
  EXPECT_EQ(folder.keeper(), 0);
}

TEST(JobFolder, AKeeperThatReplacesAnotherIsNotWaitedForLong) {
  const test::Scratch scratch;
  JobFolder folder(
      agent(scratch, "if [ $1 = --make-folder ]; then mkdir $2; echo ok; fi; exec sleep 1000\n"),
      scratch.path(), "1", never);
  const auto kill_keeper = [&] {
    ASSERT_GT(folder.keeper(), 0);
    kill(folder.keeper(), SIGKILL);
  };
  kill_keeper();
  waitpid(folder.keeper(), nullptr, 0);
  folder.replace_keeper();
  kill_keeper();
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
  EXPECT_TRUE(folder.remove());
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace convoy::cli
