// Which files of a run folder are a run's, and what a new run may remove.
#include "train/checkpoint/run_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "train/checkpoint/resume.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;

class RunFilesTest : public testing::Test {
 protected:
  void put(const std::string& file) {
    fs::create_directories(fs::path(folder_ + "/" + file).parent_path());
    const bool metrics = fs::path(file).filename() == "metrics.jsonl";
    test::spill(folder_ + "/" + file, metrics ? "{\"kind\": \"run\", \"step\": 0}\n" : "x");
  }
  std::string refusal(bool overwrite = false) const {
    return message_of<UsageError>([&] { check_run_folder(folder_, overwrite); });
  }
  void overwrite() const {
    Recipe recipe;
    recipe.output.folder = folder_;
    prepare_new_run(recipe, true);
  }
  std::string all_files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder_).string());
    }
    std::string text;
    for (const std::string& name : names) text += name + " ";
    return text;
  }

  test::Scratch scratch_;
  std::string folder_ = scratch_.path("run");
};

TEST_F(RunFilesTest, AreInTheFolderThatTheRecipeSaysOrInRuns) {
  Recipe recipe;
  recipe.name = "mine";
  EXPECT_EQ(run_folder_of(recipe), (fs::current_path() / "runs/mine").string());
  recipe.output.folder = "../other";
  EXPECT_EQ(run_folder_of(recipe), (fs::current_path().parent_path() / "other").string());
}

TEST_F(RunFilesTest, WithoutOverwriteNothingIsRemoved) {
  // Prepared by the user, with rights of its own.
  fs::create_directories(folder_ + "/checkpoints");
  fs::permissions(folder_ + "/checkpoints", fs::perms(02770));
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((folder_ + "/checkpoints").c_str(), &before), 0);
  Recipe recipe;
  recipe.output.folder = folder_;
  prepare_new_run(recipe, false);
  ASSERT_EQ(::stat((folder_ + "/checkpoints").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_mode, after.st_mode);
}

TEST_F(RunFilesTest, ARunIsRemovedWholeAndNothingElse) {
  for (const char* file :
       {"metrics.jsonl", "recipe.toml", ".partial-metrics.jsonl-7-0", "samples/rank-0.log",
        "samples/rank-13.log", "samples/.partial-rank-0.log-7-0",
        "tensorboard/events.out.tfevents.1700000000.a.7",
        "checkpoints/step-000000000012/manifest.json",
        "checkpoints/step-000000000012/model.safetensors",
        "checkpoints/step-000000000006.old/manifest.json",
        "checkpoints/.partial-removed-step-000000000003/model.safetensors",
        "checkpoints/superseded-2/metrics.jsonl",
        "checkpoints/superseded-2/step-000000000018/manifest.json"}) {
    put(file);
  }
  EXPECT_NE(refusal().find(folder_ + " holds a run already: --resume goes on"), std::string::npos);
  EXPECT_EQ(refusal(true), "");
  overwrite();
  EXPECT_EQ(all_files(), "recipe.toml ");
  EXPECT_EQ(test::entries(folder_), 1u);
}

TEST_F(RunFilesTest, OtherNamesStay) {
  const std::vector<std::string> mine{"samples/rank-.log",
                                      "samples/rank-1.log.gz",
                                      "samples/rank-a.log",
                                      "samples/a.jpg",
                                      "tensorboard/mine",
                                      "checkpoints/a.pt",
                                      "checkpoints/step-12/manifest.json",
                                      "checkpoints/superseded-x/metrics.jsonl",
                                      "checkpoints/superseded-1/a.txt",
                                      "metrics.jsonl.old",
                                      ".partial-mine",
                                      "lock.txt"};
  for (const std::string& file : mine) put(file);
  const std::string before = all_files();
  put("metrics.jsonl");
  put("samples/rank-1.log");
  put("checkpoints/superseded-1/step-000000000018/manifest.json");
  overwrite();
  fs::remove(folder_ + "/recipe.toml");
  EXPECT_EQ(all_files(), before);
}

// By a first record that can't be read, say: there is nothing to go on from.
TEST_F(RunFilesTest, AStartWithoutAnUpdateIsNotInTheWay) {
  Recipe recipe;
  recipe.output.folder = folder_;
  fs::create_directories(folder_);
  prepare_new_run(recipe, false);
  put("metrics.jsonl");
  put("samples/rank-0.log");
  EXPECT_EQ(refusal(), "");
  prepare_new_run(recipe, false);
  EXPECT_EQ(all_files(), "recipe.toml ");
  for (const char* more : {"{\"kind\": \"step\", \"step\": 1}\n", "half a row"}) {
    put("metrics.jsonl");
    EXPECT_EQ(refusal(), "");
    std::ofstream(folder_ + "/metrics.jsonl", std::ios::app) << more;
    EXPECT_NE(refusal().find(" holds a run already"), std::string::npos) << more;
  }
  put("metrics.jsonl");
  put("checkpoints/superseded-1/metrics.jsonl");
  EXPECT_NE(refusal().find(" holds a run already"), std::string::npos);
}

// Each of them alone, whoever wrote it.
TEST_F(RunFilesTest, NothingIsRemovedUnasked) {
  for (const char* file : {"samples/cat.jpg", "samples/rank-0.log", "tensorboard/a", "recipe.toml",
                           "checkpoints/resnet.pt"}) {
    put(file);
    const std::string said = refusal();
    EXPECT_NE(said.find(" is there already, and may not be a run's"), std::string::npos) << said;
    EXPECT_NE(said.find(folder_), std::string::npos) << said;
    EXPECT_NE(said.find("--overwrite removes"), std::string::npos) << said;
    Recipe recipe;
    recipe.output.folder = folder_;
    EXPECT_THROW(prepare_new_run(recipe, false), UsageError);
    EXPECT_TRUE(fs::exists(folder_ + "/" + file));
    fs::remove_all(folder_);
  }
  for (const char* file : {"metrics.jsonl", "checkpoints/step-000000000001/manifest.json",
                           "checkpoints/superseded-1/step-000000000001/manifest.json"}) {
    put(file);
    EXPECT_NE(refusal().find(" holds a run already"), std::string::npos) << file;
    fs::remove_all(folder_);
  }
  // Neither folders that are empty nor other files are in the way.
  for (const char* name : {"samples", "tensorboard", "checkpoints"}) {
    fs::create_directories(folder_ + "/" + name);
  }
  put("notes.txt");
  EXPECT_EQ(refusal(), "");
}

// Of another program, or the recipe that is to be trained: --overwrite is for runs.
TEST_F(RunFilesTest, WhatIsNoRunIsNotOverwritten) {
  put("recipe.toml");
  EXPECT_NE(refusal(true).find(folder_ + "/recipe.toml is there, and is no run's"),
            std::string::npos);
  EXPECT_THROW(overwrite(), UsageError);
  put("recipe.toml.old");
  fs::remove(folder_ + "/recipe.toml");
  test::spill(folder_ + "/metrics.jsonl", "{\"loss\": 1}\n");
  EXPECT_NE(refusal(true).find("is not metrics of Convoy"), std::string::npos) << refusal(true);
  EXPECT_THROW(overwrite(), UsageError);
  EXPECT_EQ(all_files(), "metrics.jsonl recipe.toml.old ");
  // One that was killed before it had metrics.
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  Recipe recipe;
  recipe.output.folder = folder_;
  prepare_new_run(recipe, false);
  EXPECT_EQ(refusal(true), "");
}

TEST_F(RunFilesTest, WhatCannotBeListedIsNoEmptyFolder) {
  for (const char* name : {"checkpoints", "samples", "tensorboard", "metrics.jsonl"}) {
    fs::create_directories(folder_);
    fs::create_symlink(name, folder_ + "/" + name);  // to itself
    for (const bool overwrite : {false, true}) {
      EXPECT_NE(refusal(overwrite).find("cannot read " + folder_ + "/" + name), std::string::npos)
          << name << refusal(overwrite);
    }
    fs::remove_all(folder_);
  }
}

TEST_F(RunFilesTest, WhatARunCouldNotUseIsSaidBefore) {
  for (const char* name : {"checkpoints", "samples", "tensorboard"}) {
    put(name);
    EXPECT_NE(refusal(true).find(std::string(name) + " is not a folder: move it away"),
              std::string::npos);
    fs::remove_all(folder_);
  }
  fs::create_directories(folder_ + "/metrics.jsonl");
  EXPECT_NE(refusal(true).find("metrics.jsonl is not a plain file"), std::string::npos);
  put("checkpoints/step-000000000100/weights.pt");
  EXPECT_NE(refusal(true).find("step-000000000100 has the name of a checkpoint, but no manifest"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ + "/checkpoints/step-000000000100/weights.pt"));
}

// A large disk is often linked in.
TEST_F(RunFilesTest, LinksToFoldersStay) {
  fs::create_directories(scratch_.path("disk/step-000000000012"));
  test::spill(scratch_.path("disk/step-000000000012/manifest.json"), "{}");
  fs::create_directories(folder_);
  fs::create_directory_symlink(scratch_.path("disk"), folder_ + "/checkpoints");
  overwrite();
  EXPECT_TRUE(fs::is_symlink(folder_ + "/checkpoints"));
  EXPECT_EQ(test::entries(scratch_.path("disk")), 0u);
}

}  // namespace
}  // namespace convoy::train
