#include "convoy/train/checkpoint_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::entries;
using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

constexpr Retention kAll{100, true};

std::string write_small(const CheckpointFolder& folder, std::int64_t step,
                        std::optional<double> score = std::nullopt,
                        const Retention& retention = kAll) {
  Manifest manifest = sample_manifest(step);
  manifest.score = score;
  return write_files(folder, manifest, fill_small, retention);
}

// Without its manifest.
void describe_files_of(const std::string& checkpoint, Manifest& manifest) {
  const Scratch copy;
  for (const char* name : {"part-0.safetensors", "part-1.safetensors"})
    fs::copy_file(checkpoint + "/" + name, copy.path(name));
  describe_files(copy.path(), manifest);
}

std::vector<std::string> names(const CheckpointFolder& folder) {
  std::vector<std::string> all;
  for (const std::string& path : folder.list()) all.push_back(fs::path(path).filename());
  return all;
}

std::vector<std::string> steps(std::initializer_list<int> numbers) {
  std::vector<std::string> all;
  for (const int number : numbers) {
    const std::string digits = std::to_string(number);
    all.push_back("step-" + std::string(12 - digits.size(), '0') + digits);
  }
  return all;
}

TEST(Checkpoints, RoundTrip) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path("run/checkpoints/"));
  EXPECT_TRUE(folder.list().empty());
  EXPECT_EQ(folder.newest(), "");
  EXPECT_EQ(folder.best(), "");
  const std::string path = write_small(folder, 1200, 0.5);
  EXPECT_EQ(path, scratch.path("run/checkpoints/step-000000001200"));
  EXPECT_EQ(entries(path), 3u);

  const Manifest manifest = open_checkpoint(path);
  Manifest expected = sample_manifest(1200);
  expected.score = 0.5;
  describe_files_of(path, expected);
  EXPECT_EQ(manifest, expected);
  EXPECT_EQ(open_checkpoint(path + "/"), expected);
}

TEST(Checkpoints, AreOrderedByStep) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const std::int64_t step : {30L, 4L, 1000000000000L, 200L}) write_small(folder, step);
  // What is no checkpoint doesn't count.
  for (const char* name : {"step-", "step-1", "step-00000000003x", "other", "step-0000000000030",
                           "step-99999999999999999999"}) {
    fs::create_directory(scratch.path(name));
  }
  spill(scratch.path("step-000000000005"), "a file");
  std::vector<std::string> expected = steps({4, 30, 200});
  expected.push_back("step-1000000000000");
  EXPECT_EQ(names(folder), expected);
  EXPECT_EQ(folder.newest(), scratch.path("step-1000000000000"));
  EXPECT_EQ(folder.before(folder.newest()), scratch.path("step-000000000200"));
  EXPECT_EQ(folder.before("step-000000000030/"), scratch.path("step-000000000004"));
  EXPECT_EQ(folder.before("step-000000000004"), "");
  EXPECT_EQ(folder.before("elsewhere"), "");
}

TEST(Checkpoints, Retention) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  Retention two{2, true, {scratch.path("step-000000000002/")}};
  const double scores[] = {0.1, 0.2, 0.9, 0.9, 0.5, std::nan(""), 0.3};
  for (int step = 1; step <= 7; ++step) write_small(folder, step, scores[step - 1], two);
  EXPECT_EQ(names(folder), steps({2, 3, 6, 7}));
  EXPECT_EQ(folder.best(), scratch.path("step-000000000003"));
  two.best = false;
  two.keep = {};
  write_small(folder, 8, std::nullopt, two);
  EXPECT_EQ(names(folder), steps({7, 8}));
  write_small(folder, 9, std::nullopt, {1, true});
  EXPECT_EQ(names(folder), steps({7, 9}));
  EXPECT_EQ(folder.best(), scratch.path("step-000000000007"));
  EXPECT_EQ(entries(scratch.path()), 2u);
  EXPECT_THROW(write_small(folder, 10, std::nullopt, {0, true}), UsageError);
  EXPECT_THROW(write_small(folder, -1), UsageError);
}

// Another figure: what was the best by the one before is kept no longer, and would be again.
TEST(Checkpoints, ScoresOfAnotherFigureDoNotCount) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const auto write = [&](std::int64_t step, const std::string& metric, std::optional<double> score,
                         int last) {
    Manifest manifest = sample_manifest(step);
    manifest.metric = metric;
    manifest.score = score;
    write_files(folder, manifest, fill_small, {last, true});
  };
  write(1, "top1", 0.9, 9);
  write(2, "top1", 0.8, 9);
  EXPECT_EQ(folder.best(), scratch.path("step-000000000001"));
  write(3, "loss", std::nullopt, 9);
  EXPECT_EQ(folder.best(), "");
  write(4, "loss", -2.5, 9);
  write(5, "loss", -3, 9);
  EXPECT_EQ(folder.best(), scratch.path("step-000000000004"));
  write(6, "top1", std::nullopt, 2);
  EXPECT_EQ(names(folder), steps({1, 5, 6}));
  write(7, "loss", -2.75, 2);
  EXPECT_EQ(names(folder), steps({6, 7}));
  // Earlier versions didn't say what their scores are of: they count.
  write(8, "", -2, 1);
  EXPECT_EQ(names(folder), steps({8}));
  write(9, "loss", -2.5, 1);
  EXPECT_EQ(names(folder), steps({8, 9}));
}

TEST(Checkpoints, RetentionLeavesLaterAndUnreadableOnes) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int step : {10, 20, 30, 40}) write_small(folder, step);
  spill(scratch.path("step-000000000020/manifest.json"), "{}");
  write_small(folder, 25, std::nullopt, {1, true});
  EXPECT_EQ(names(folder), steps({20, 25, 30, 40}));
}

TEST(Checkpoints, LaterOnesAreSetAside) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  EXPECT_EQ(folder.set_aside_after(0), "");
  for (const int step : {10, 20, 30, 40}) write_small(folder, step);
  EXPECT_EQ(folder.set_aside_after(40), "");
  const std::string first = folder.set_aside_after(20);
  EXPECT_EQ(first, scratch.path("superseded-1"));
  EXPECT_EQ(names(folder), steps({10, 20}));
  EXPECT_EQ(names(CheckpointFolder(first)), steps({30, 40}));
  EXPECT_EQ(open_checkpoint(first + "/step-000000000040").step, 40);
  // No later one of another time is in the way, nor is it counted or removed.
  write_small(folder, 30, std::nullopt, {1, false});
  EXPECT_EQ(names(folder), steps({30}));
  EXPECT_EQ(folder.set_aside_after(5), scratch.path("superseded-2"));
  EXPECT_TRUE(folder.list().empty());
  EXPECT_EQ(names(CheckpointFolder(first)), steps({30, 40}));
}

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

TEST(Checkpoints, EveryFlippedBitIsFound) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string earlier = write_small(folder, 1);
  const std::string path = write_small(folder, 2);
  std::size_t bits = 0;
  for (const char* name : {"manifest.json", "part-0.safetensors", "part-1.safetensors"}) {
    const std::string file = path + "/" + name;
    const std::string good = slurp(file);
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&stream](std::size_t at, char byte) {
      stream.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    };
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit, ++bits) {
      const std::size_t at = bit / 8;
      put(at, static_cast<char>(good[at] ^ (1 << bit % 8)));
      const std::string said = message_of<UsageError>([&] { verify_checkpoint(path); });
      put(at, good[at]);
      ASSERT_TRUE(said.starts_with(file)) << bit << ": " << said;
      ASSERT_TRUE(said.ends_with("the newest whole one before it is " + earlier)) << said;
    }
  }
  EXPECT_GT(bits, 9000u);
  EXPECT_EQ(open_checkpoint(path).step, 2);
}

TEST(Checkpoints, DamageIsNamed) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int step : {1, 2, 3, 4}) write_small(folder, step);
  const std::string path = folder.newest();
  const std::string model = path + "/part-0.safetensors";
  const auto said = [&] { return message_of<UsageError>([&] { open_checkpoint(path); }); };

  const std::string good = slurp(model);
  spill(model, good.substr(0, 20));
  EXPECT_EQ(said(), model + " is damaged: it has 20 bytes, the manifest says " +
                        std::to_string(good.size()) + "; the newest whole one before it is " +
                        scratch.path("step-000000000003"));
  fs::remove(model);
  EXPECT_TRUE(said().starts_with(model + " is missing; ")) << said();
  fs::create_directory(model);
  EXPECT_TRUE(said().starts_with(model + " is not a regular file; ")) << said();

  // The one before is damaged, too, and so on.
  fs::remove(scratch.path("step-000000000003/part-1.safetensors"));
  EXPECT_TRUE(said().ends_with("before it is " + scratch.path("step-000000000002"))) << said();
  for (const char* name : {"step-000000000002", "step-000000000001"}) {
    fs::remove(scratch.path(name) + "/manifest.json");
  }
  EXPECT_TRUE(said().ends_with("; there is no earlier checkpoint that is whole")) << said();
  fs::remove(path + "/manifest.json");
  EXPECT_TRUE(said().starts_with("cannot read " + path + "/manifest.json: No such file")) << said();
  EXPECT_EQ(message_of<UsageError>([&] { open_checkpoint(scratch.path("none")); }),
            scratch.path("none") + " is not a checkpoint's folder");
}

TEST(Checkpoints, OnlyPlainFiles) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const auto attempt = [&](const std::function<void(const std::string&)>& fill) {
    return message_of<UsageError>([&] {
      CheckpointDraft draft(folder.folder(), 1);
      fill(draft.folder());
      draft.commit(sample_manifest(1), kAll);
    });
  };
  EXPECT_NE(attempt([](const std::string& path) { fs::create_directory(path + "/sub"); }), "");
  EXPECT_NE(attempt([](const std::string& path) { spill(path + "/manifest.json", ""); }), "");
  EXPECT_NE(attempt([](const std::string& path) { fs::create_symlink("/", path + "/link"); }), "");
  EXPECT_EQ(entries(scratch.path()), 0u);
}

TEST(Checkpoints, AMissingFileIsNoCheckpoint) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1);
  CheckpointDraft draft(folder.folder(), 2);
  Manifest manifest = sample_manifest(2);
  fill_small(draft.folder());
  describe_files(draft.folder(), manifest);
  fs::remove(draft.folder() + "/part-1.safetensors");
  EXPECT_EQ(message_of<Failure>([&] { draft.commit(manifest, kAll); }),
            "checkpoint " + scratch.path("step-000000000002") +
                " was not written: part-1.safetensors should have " +
                std::to_string(manifest.files["part-1.safetensors"].bytes) +
                " bytes, but is not there; " + scratch.path("step-000000000001") + " stays usable");
  EXPECT_EQ(entries(scratch.path()), 1u);
}

// Files of one checkpoint in another one's folder.
TEST(Checkpoints, APartOfAnotherStepIsFound) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string one = write_small(folder, 1);
  const std::string two = write_files(
      folder, sample_manifest(2),
      [](const std::string& path) {
        fill_small(path);
        const float numbers[2] = {4, 5};
        write_safetensors(path + "/part-0.safetensors",
                          {{"model/w", "F32", {2}, std::as_bytes(std::span(numbers))}});
      },
      kAll);
  fs::copy_file(one + "/part-0.safetensors", two + "/part-0.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(open_checkpoint(two).step, 2);  // of the right size, with the right tensors
  const std::string said = message_of<UsageError>([&] { verify_checkpoint(two); });
  EXPECT_TRUE(said.starts_with(two + "/part-0.safetensors is damaged: the checksum of w [2] is "))
      << said;
  EXPECT_TRUE(said.ends_with("the newest whole one before it is " + one)) << said;
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
