// A checkpoint that takes the place of another, and those that are never finished.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "convoy/base/error.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/safetensors.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"
#include "train/checkpoint/open_checkpoint.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::entries;
using test::message_of;
using test::Scratch;

TEST(Checkpoints, TheSameStepIsReplaced) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1, 0.1);
  const std::string path = write_small(folder, 2, 0.2);
  EXPECT_EQ(write_small(folder, 2, 0.3), path);
  EXPECT_EQ(open_checkpoint(path).score, 0.3);
  EXPECT_EQ(entries(scratch.path()), 2u);
}

// Where names can't be exchanged, a kill at one moment leaves only the old one under another name.
TEST(Checkpoints, AnInterruptedReplacementLosesNothing) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string path = write_small(folder, 2, 0.2);
  fs::rename(path, path + ".old");
  EXPECT_EQ(folder.newest(), path + ".old");
  EXPECT_EQ(open_checkpoint(folder.newest()).score, 0.2);
  write_small(folder, 2, 0.3);
  EXPECT_EQ(names(folder), steps({2}));
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(Checkpoints, AWriterKilledHalfwayLeavesTheOthers) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    write_files(
        folder, sample_manifest(2),
        [](const std::string& path) {
          fill_small(path);
          ::raise(SIGKILL);
        },
        kAll);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(scratch.path()), 2u);
  EXPECT_EQ(names(folder), steps({1}));
  write_small(folder, 3);
  EXPECT_EQ(entries(scratch.path()), 2u);
  EXPECT_EQ(names(folder), steps({1, 3}));
}

void fill_large(const std::string& folder) {
  fill_small(folder);
  const std::string data(1 << 20, 'x');
  write_safetensors(folder + "/part-2.safetensors",
                    {{"optimizer/noise", "U8", {1 << 20}, std::as_bytes(std::span(data))}});
}

// The error of a write that fails, after which everything else must be as before.
void expect_untouched_after_failure(const CheckpointFolder& folder, const std::string& reason) {
  const std::string earlier = write_small(folder, 1, 0.5);
  const std::string same = write_small(folder, 2, 0.6);
  for (const int step : {2, 3}) {
    const std::string message = message_of<Failure>([&] {
      write_files(folder, sample_manifest(step), fill_large, {1, false});
    });
    const std::string path = folder.folder() + "/" + steps({step})[0];
    EXPECT_EQ(message, "checkpoint " + path + " was not written: cannot write " + path +
                           "/part-2.safetensors: write: " + reason + "; " + same + " stays usable");
    EXPECT_EQ(entries(folder.folder()), 2u);
    EXPECT_EQ(open_checkpoint(same).score, 0.6);
    EXPECT_EQ(open_checkpoint(earlier).score, 0.5);
  }
}

TEST(Checkpoints, AFullDiskLeavesTheEarlierOnes) {
  const Scratch scratch;
  const test::SmallDisk disk(scratch.path("disk"), 256 << 10);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << disk.why_not();
  expect_untouched_after_failure(CheckpointFolder(scratch.path("disk/checkpoints")),
                                 "No space left on device");
}

TEST(Checkpoints, AFileThatMayNotGrowLeavesTheEarlierOnes) {
  const Scratch scratch;
  const test::FileSizeLimit limit(64 << 10);
  expect_untouched_after_failure(CheckpointFolder(scratch.path("checkpoints")), "File too large");
}

TEST(Checkpoints, AFailureOfTheFirstOneSaysSo) {
  const Scratch scratch;
  const test::FileSizeLimit limit(64 << 10);
  const CheckpointFolder folder(scratch.path("checkpoints"));
  const std::string message =
      message_of<Failure>([&] { write_files(folder, sample_manifest(1), fill_large, kAll); });
  EXPECT_TRUE(message.ends_with("; there is no earlier one")) << message;
  EXPECT_EQ(entries(folder.folder()), 0u);
}

}  // namespace
}  // namespace convoy::train
