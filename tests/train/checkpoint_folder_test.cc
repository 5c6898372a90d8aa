#include "convoy/train/checkpoint_folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
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

}  // namespace
}  // namespace convoy::train
