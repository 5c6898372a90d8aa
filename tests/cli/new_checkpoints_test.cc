#include "cli/training/new_checkpoints.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "convoy/train/checkpoint_folder.h"
#include "tests/base/scratch.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/resume.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

class NewCheckpointsTest : public testing::Test {
 protected:
  // As far as a list of them goes.
  void write(std::int64_t step) const {
    fs::create_directories(train::checkpoints_in(scratch_.path("run")) + "/" +
                           train::checkpoint_name(step));
  }
  NewCheckpoints since_now(bool all = false) const {
    return NewCheckpoints(scratch_.path("run"), all);
  }

  test::Scratch scratch_;
};

TEST_F(NewCheckpointsTest, AreThoseThatWereWritten) {
  const NewCheckpoints before_all = since_now();
  EXPECT_FALSE(before_all.any()) << "there is no folder";
  write(5);
  write(10);
  EXPECT_TRUE(before_all.any());
  const NewCheckpoints later = since_now();
  EXPECT_FALSE(later.any());
  // A run that goes on from step 5 sets the later one aside, which is no new one.
  EXPECT_FALSE(train::CheckpointFolder(train::checkpoints_in(scratch_.path("run")))
                   .set_aside_after(5)
                   .empty());
  EXPECT_FALSE(later.any());
  // But what it writes at step 10 is.
  write(10);
  EXPECT_TRUE(later.any());
  EXPECT_TRUE(since_now(true).any());
}

}  // namespace
}  // namespace convoy::cli
