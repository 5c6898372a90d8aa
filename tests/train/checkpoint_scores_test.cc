// Which checkpoint is the best: scores of one figure on the same data.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "convoy/train/checkpoint_folder.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"

namespace convoy::train {
namespace {

using test::Scratch;

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

}  // namespace
}  // namespace convoy::train
