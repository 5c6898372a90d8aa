#include "convoy/train/checkpoint_folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/open_checkpoint.h"

namespace {

ino_t folder_not_listed = 0;  // as on a disk that fails

// What somebody else does between the listing of a folder and what is made of it.
ino_t folder_changed = 0;
std::function<void()> change;

}  // namespace

// Before the one of the C library, also for the C++ library's iterators.
extern "C" dirent* readdir(DIR* folder) {
  static const auto original = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  struct stat info {};
  if (folder_not_listed != 0 && fstat(dirfd(folder), &info) == 0 &&
      info.st_ino == folder_not_listed) {
    errno = EIO;
    return nullptr;
  }
  dirent* const entry = original(folder);
  if (entry == nullptr && change && fstat(dirfd(folder), &info) == 0 &&
      info.st_ino == folder_changed) {
    const int before = errno;  // says whether this was the end
    std::exchange(change, nullptr)();
    errno = before;
  }
  return entry;
}

namespace convoy::train {
namespace {

// While it lives this folder can't be listed.
class NotListed {
 public:
  explicit NotListed(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0) folder_not_listed = info.st_ino;
  }
  ~NotListed() { folder_not_listed = 0; }
  NotListed(const NotListed&) = delete;
  NotListed& operator=(const NotListed&) = delete;
};

namespace fs = std::filesystem;
using test::entries;
using test::message_of;
using test::Scratch;
using test::spill;

// Without its manifest.
void describe_files_of(const std::string& checkpoint, Manifest& manifest) {
  const Scratch copy;
  for (const char* name : {"part-0.safetensors", "part-1.safetensors"})
    fs::copy_file(checkpoint + "/" + name, copy.path(name));
  describe_files(copy.path(), manifest);
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

// The earlier ones stay, and the next one looks again.
TEST(Checkpoints, AFolderThatCannotBeListedIsAWarning) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int step : {1, 2}) write_small(folder, step);
  std::string warning;
  {
    Manifest manifest = sample_manifest(3);
    CheckpointDraft draft(folder.folder(), 3);
    fill_small(draft.folder());
    describe_files(draft.folder(), manifest);
    const NotListed not_listed(scratch.path());
    EXPECT_EQ(draft.commit(manifest, {1, false}), scratch.path("step-000000000003"));
    warning = draft.warning();
  }
  EXPECT_EQ(warning, "checkpoint " + scratch.path("step-000000000003") +
                         " is whole, but earlier ones are all kept: cannot read the folder " +
                         scratch.path() + ": Input/output error");
  EXPECT_EQ(names(folder), steps({1, 2, 3}));
  EXPECT_EQ(open_checkpoint(folder.newest()).step, 3);
  write_small(folder, 4, std::nullopt, {1, false});
  EXPECT_EQ(names(folder), steps({4}));
}

// What was written before it was evaluated is the best from then on, if it is.
TEST(Checkpoints, AScoreIsAddedLater) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const Retention one{1, true};
  write_small(folder, 1, 0.5, one);
  const std::string second = write_small(folder, 2, std::nullopt, one);
  EXPECT_EQ(names(folder), steps({1, 2}));
  Manifest expected = open_checkpoint(second);
  folder.add_score(second, 0.25, one);
  EXPECT_EQ(names(folder), steps({1, 2}));
  EXPECT_EQ(folder.best(), scratch.path("step-000000000001"));
  folder.add_score(second, 0.75, one);
  EXPECT_EQ(names(folder), steps({2}));
  EXPECT_EQ(folder.best(), second);
  expected.score = 0.75;
  EXPECT_EQ(verify_checkpoint(second), expected);
  EXPECT_EQ(entries(second), 3u);
  // A training doesn't end where the earlier ones can't be looked through.
  const std::string third = write_small(folder, 3, std::nullopt, one);
  std::string warning;
  {
    const NotListed not_listed(scratch.path());
    warning = folder.add_score(third, 0.9, one);
  }
  EXPECT_TRUE(warning.starts_with("checkpoint " + third + " is whole, but earlier ones are all"))
      << warning;
  EXPECT_EQ(open_checkpoint(third).score, 0.9);
  EXPECT_EQ(names(folder), steps({2, 3}));
  EXPECT_EQ(folder.add_score(third, 0.9, one), "");
  EXPECT_EQ(names(folder), steps({3}));
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
}

// Each checkpoint of a run asks for the scores of all that are kept.
TEST(Checkpoints, AManifestIsReadOnce) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1, 0.9, {9, true});
  write_small(folder, 2, 0.8, {9, true});
  const std::string best = folder.best();
  EXPECT_EQ(best, scratch.path("step-000000000001"));
  // Other bytes in the same file, which is as old and as long: only reading it would tell.
  const std::string manifest = best + "/manifest.json";
  const auto written = std::filesystem::last_write_time(manifest);
  std::fstream(manifest, std::ios::in | std::ios::out) << "no JSON";
  std::filesystem::last_write_time(manifest, written);
  EXPECT_EQ(folder.best(), best);
  std::filesystem::last_write_time(manifest, written + std::chrono::seconds(1));
  EXPECT_EQ(folder.best(), scratch.path("step-000000000002"));
}

// Nor those that were measured on something else, or on what nobody knows.
TEST(Checkpoints, ScoresOfOtherDataDoNotCount) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const auto write = [&](std::int64_t step, std::optional<std::uint64_t> on,
                         std::optional<double> score, int last = 9) {
    Manifest manifest = sample_manifest(step);
    manifest.metric = "top1";
    manifest.measured_on = on;
    manifest.score = score;
    write_files(folder, manifest, fill_small, {last, true});
  };
  write(1, std::nullopt, 0.99);
  write(2, 7, 0.9);
  EXPECT_EQ(folder.best(), scratch.path("step-000000000002"));
  write(3, 8, std::nullopt);
  EXPECT_EQ(folder.best(), "");
  write(4, 8, 0.6);
  write(5, 8, 0.5);
  EXPECT_EQ(folder.best(), scratch.path("step-000000000004"));
  Manifest like = sample_manifest(5);
  like.metric = "top1";
  like.measured_on = 7;
  EXPECT_EQ(folder.best_like(like), scratch.path("step-000000000002"));
  write(6, 8, 0.4, 1);  // what was the best on other data goes
  EXPECT_EQ(names(folder), steps({4, 6}));
}

// Earlier versions said only in the recipe what their scores are of.
TEST(Checkpoints, ScoresOfEarlierVersionsAreOfWhatTheirRecipeSays) {
  const std::string of_loss = "[checkpoint]\nbest = \"loss\"\n";
  const std::string usual = "[task]\nname = \"one_vs_all\"\n[checkpoint]\nbest = \"\"\n";
  const std::string former = "[loss]\nname = \"cross_entropy\"\n";
  const std::string plugin = "[task]\nname = \"mine\"\n";
  const auto write = [&](const CheckpointFolder& folder, std::int64_t step,
                         const std::string& metric, const std::string& recipe, double score,
                         int last) {
    Manifest manifest = sample_manifest(step);
    manifest.metric = metric;
    manifest.recipe = recipe;
    manifest.score = score;
    write_files(folder, manifest, fill_small, {last, true});
  };
  for (const std::string& before : {usual, former}) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch.path());
    write(folder, 1, "", before, 0.9, 9);
    write(folder, 2, "", of_loss, -2, 9);
    write(folder, 3, "", of_loss, -3, 9);
    EXPECT_EQ(folder.best(), scratch.path("step-000000000002"));
    Manifest like = sample_manifest(3);
    EXPECT_EQ(folder.best_like(like), scratch.path("step-000000000001"));
    like.metric = "loss";
    EXPECT_EQ(folder.best_like(like), scratch.path("step-000000000002"));
    like.step = 1;
    EXPECT_EQ(folder.best_like(like), "");
    // 0.9 is no loss.
    write(folder, 4, "loss", of_loss, -2.5, 1);
    EXPECT_EQ(names(folder), steps({2, 4}));
    write(folder, 5, "top1", usual, 0.8, 9);
    EXPECT_EQ(folder.best(), scratch.path("step-000000000005"));
  }
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write(folder, 1, "", former, 0.9, 9);
  write(folder, 2, "top1", usual, 0.8, 1);
  EXPECT_EQ(names(folder), steps({1, 2}));
  // Nothing is known of what a plugin's task usually goes by but that it is that.
  const Scratch other;
  const CheckpointFolder plugins(other.path());
  write(plugins, 1, "", plugin, 0.9, 9);
  write(plugins, 2, "", plugin, 0.8, 9);
  write(plugins, 3, "error", plugin, 0.7, 1);
  EXPECT_EQ(names(plugins), steps({1, 3}));
  write(plugins, 4, "loss", of_loss, -0.7, 1);
  EXPECT_EQ(names(plugins), steps({4}));
  Manifest manifest;
  manifest.recipe = "no [TOML";
  EXPECT_EQ(figure_of(manifest), "top1");
  manifest.metric = "top5";
  EXPECT_EQ(figure_of(manifest), "top5");
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

// Whoever is killed in between begins again with all of it: the file is there before any is moved.
TEST(Checkpoints, WhatGoesWithLaterOnesIsCopiedBeforeTheyAreMoved) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path("checkpoints"));
  for (const int step : {10, 20, 30}) write_small(folder, step);
  const std::string metrics = scratch.path("metrics.jsonl");
  fs::create_directory(metrics);  // can't be copied as a file
  const std::string said = test::message_of<Failure>([&] { set_aside_with(folder, 10, metrics); });
  EXPECT_NE(said.find("cannot copy " + metrics), std::string::npos) << said;
  EXPECT_EQ(names(folder), steps({10, 20, 30}));
  fs::remove(metrics);
  test::spill(metrics, "rows");
  const std::string aside = set_aside_with(folder, 10, metrics);
  EXPECT_EQ(names(CheckpointFolder(aside)), steps({20, 30}));
  EXPECT_EQ(test::slurp(aside + "/metrics.jsonl"), "rows");
  EXPECT_EQ(test::slurp(metrics), "rows");
}

// By a run that goes on, while another process looks for its newest.
TEST(Checkpoints, OneThatIsRemovedMeanwhileIsNotTheNewest) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path("checkpoints"));
  const std::string first = write_small(folder, 10);
  struct stat info {};
  ASSERT_EQ(stat(folder.folder().c_str(), &info), 0);
  folder_changed = info.st_ino;
  change = [&] {
    folder_changed = 0;
    write_small(folder, 20, std::nullopt, {1, false});
  };
  const FoundCheckpoint found = open_checkpoint_in(scratch.path(), Which::newest);
  EXPECT_EQ(last_part(found.path), checkpoint_name(20));
  EXPECT_EQ(found.manifest.step, 20);
  // Who has named it has to name another.
  const std::string said = message_of<UsageError>([&] { open_checkpoint(first); });
  EXPECT_NE(said.find("; nothing is there: a run that goes on removes"), std::string::npos) << said;
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
