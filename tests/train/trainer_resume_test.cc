// Going on from a checkpoint: from where, what stays as it was, and who may.
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/export.h"
#include "tests/train/trainer_fixture.h"
#include "train/checkpoint/run_lock.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

using TrainerResumeTest = TrainerTest;

// Its position is what a training goes on from: the rest of the epoch, the epochs that are left,
// and the rates that belong there.
TEST_F(TrainerResumeTest, AnotherBatchGoesOnFromTheSamePosition) {
  const Overrides log{"output.log_samples=true", "checkpoint.keep=9"};
  const Recipe before = recipe("batch", log);
  train(before, 8);  // 24 samples of the second epoch
  Overrides larger = log;
  larger.push_back("training.batch=20");
  const Recipe after = recipe("batch", larger);
  const RunResult result = train(after, 0, "latest");
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.steps, 8 + 2 + 4);  // 20 and 17, then an epoch of 4 batches
  all().barrier();
  if (!first()) return;
  expect_each_once(after, 3 * 61);
  double position = 0;
  for (const auto& row : rows(after, "step")) {
    const double rate = 0.1 * (1 + std::cos(std::acos(-1.0) * position / 3)) / 2;
    EXPECT_NEAR(row["learning_rate"].get<double>(), rate, 1e-12) << row;
    position = row["epoch"];
  }
  EXPECT_EQ(position, 3);
  const auto epochs = rows(after, "epoch");
  ASSERT_EQ(epochs.size(), 3u);
  EXPECT_EQ(epochs[1]["step"], 10);
  EXPECT_EQ(rows(after, "evaluation").size(), 3u);
}

TEST_F(TrainerResumeTest, ALargerBatchMayEndTheEpochThatIsLeft) {
  const Recipe before = recipe("cut", {"data.drop_last=true", "training.batch=10"});
  train(before, 5);  // 11 samples are left
  const Recipe after = recipe("cut", {"data.drop_last=true", "training.batch=20"});
  EXPECT_EQ(train(after, 0, "latest").steps, 5 + 2 * 3);
  all().barrier();
  if (!first()) return;
  const auto epochs = rows(after, "epoch");
  ASSERT_EQ(epochs.size(), 3u);
  EXPECT_EQ(epochs[0]["step"], 5);
  EXPECT_EQ(rows(after, "evaluation").size(), 3u);
}

TEST_F(TrainerResumeTest, ALongerTrainingGoesOnFromItsEnd) {
  train(recipe("longer"));
  EXPECT_EQ(train(recipe("longer"), 0, "latest").steps, 18);
  EXPECT_EQ(train(recipe("longer", {"training.epochs=4"}), 0, "latest").steps, 24);
  EXPECT_EQ(train(recipe("longer", {"training.epochs=2"}), 0, "latest").steps, 24);
}

TEST_F(TrainerResumeTest, RefusesARunFolderThatHoldsARun) {
  const Recipe r = recipe("twice", {"output.log_samples=true"});
  train(r, 1);
  all().barrier();
  const auto before = contents(r.output.folder);
  EXPECT_NE(refusal(r).find("twice holds a run already: --resume goes on"), std::string::npos);
  all().barrier();
  EXPECT_EQ(contents(r.output.folder), before);
  EXPECT_EQ(train(r, 0, "", true).steps, 18);
  all().barrier();
  if (first()) expect_each_once(r, 3 * 61);
}

// Folders that happen to have the names that a run uses.
TEST_F(TrainerResumeTest, WhatAUserKeepsInTheFolderIsNotTouched) {
  const Recipe r = recipe("kept", {"output.log_samples=true", "output.tensorboard=true"});
  const std::string& folder = r.output.folder;
  const std::vector<std::string> mine{"/samples/cat.jpg", "/samples/rank-0.log.txt",
                                      "/checkpoints/resnet.pt", "/tensorboard/notes", "/data.csv"};
  if (first()) {
    for (const std::string& file : mine) {
      fs::create_directories(fs::path(folder + file).parent_path());
      test::spill(folder + file, "9 is mine\n1 is mine\n");
    }
  }
  all().barrier();
  const auto before = contents(folder);
  const std::string said = refusal(r);
  EXPECT_NE(said.find(folder + "/samples is there already"), std::string::npos) << said;
  EXPECT_NE(said.find("--overwrite"), std::string::npos) << said;
  all().barrier();
  EXPECT_EQ(contents(folder), before);
  all().barrier();
  const auto expect_kept = [&] {
    all().barrier();
    for (const std::string& file : mine)
      EXPECT_EQ(contents(folder)[folder + file], "9 is mine\n1 is mine\n");
    all().barrier();
  };
  train(r, 4, "", true);
  expect_kept();
  train(r, 8, "latest");
  expect_kept();
  EXPECT_EQ(train(r, 0, "", true).steps, 18);
  expect_kept();
  if (!first()) return;
  expect_each_once(r, 3 * 61);
  EXPECT_EQ(test::entries(folder + "/tensorboard"), 2u);
}

TEST_F(TrainerResumeTest, WhatIsRefusedTouchesNothing) {
  const Overrides often{"checkpoint.every_steps=3", "checkpoint.keep=99",
                        "output.log_samples=true"};
  const Recipe mine = recipe("mine", often);
  train(mine);
  const std::string other = train(recipe("other"), 4).checkpoint;
  all().barrier();
  const auto before = contents(mine.output.folder);
  const std::string early = mine.output.folder + "/checkpoints/step-000000000003";
  const auto refused = [&](const Overrides& overrides, const std::string& from) {
    const std::string said = refusal(recipe("mine", overrides), from);
    all().barrier();
    EXPECT_EQ(contents(mine.output.folder), before) << said;
    return said;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused({"seed=2"}, early), "seed is 2, in the checkpoint it is 1; the order of samples");
  has(refused({"data.train.size=60"}, early), "another data set (61 samples then, 60 now");
  has(refused({"model.options.norm=true"}, early), "missing in the file: bn.bias");
  has(refused({"model.classes=5"}, early), "fc.bias is [3] in the file, [5] in the model");
  has(refused({"optimizer.name=adam", "optimizer.momentum=0"}, early),
      "optimizer.name is \"adam\", in the checkpoint it is \"sgd\"; what it has gathered");
  has(refused({"optimizer.momentum=0"}, early), "has no use for, e.g. momentum_buffer/conv.bias");
  // Another run's checkpoint is for a folder of its own.
  has(refused({}, other), "mine holds a run that " + other + " is no checkpoint of");
  EXPECT_EQ(train(recipe("branch"), 0, other).steps, 18);
  has(refused({}, mine.output.folder + "/checkpoints/step-000000000099"), "is not a checkpoint");
  has(refusal(recipe("fresh"), "latest"), "there is no checkpoint in");
  all().barrier();
  EXPECT_FALSE(fs::exists(folder_ + "/fresh"));
}

TEST_F(TrainerResumeTest, LaterCheckpointsAreKeptAside) {
  const Overrides often{"checkpoint.every_steps=6", "checkpoint.keep=99"};
  const Recipe r = recipe("back", often);
  const std::string first_end = train(r).checkpoint;
  const std::string checkpoints = r.output.folder + "/checkpoints";
  all().barrier();
  const auto later = contents(checkpoints + "/step-000000000012");
  const std::string metrics = read_text_file(r.output.folder + "/metrics.jsonl");
  all().barrier();
  train(recipe("back", {"optimizer.lr=0.2", "training.epochs=2"}), 0,
        checkpoints + "/step-000000000006");
  all().barrier();
  const std::string aside = checkpoints + "/superseded-1";
  EXPECT_EQ(read_text_file(aside + "/metrics.jsonl"), metrics);
  EXPECT_EQ(contents(aside + "/step-000000000012").size(), later.size());
  EXPECT_EQ(open_checkpoint(aside + "/step-000000000018").step, 18);
  EXPECT_EQ(CheckpointFolder(checkpoints).newest(), checkpoints + "/step-000000000012");
  all().barrier();
  // What was set aside is another way now: two are not mixed in one folder.
  const auto both = contents(r.output.folder);
  const std::string old = aside + "/step-000000000018";
  const std::string said = refusal(recipe("back", {"training.epochs=4"}), old);
  EXPECT_NE(said.find(old + " was set aside when the run in " + r.output.folder), std::string::npos)
      << said;
  EXPECT_NE(said.find("--set output.folder=..."), std::string::npos) << said;
  all().barrier();
  EXPECT_EQ(contents(r.output.folder), both);
  EXPECT_EQ(train(recipe("forth", {"training.epochs=4"}), 0, old).steps, 24);
}

// Folders need not look the same everywhere: rank 0 decides, and alone reads.
TEST_F(TrainerResumeTest, RankZeroSaysFromWhere) {
  const Overrides often{"checkpoint.every_steps=2", "checkpoint.keep=99", "model.options.norm=true",
                        "data.drop_last=true"};
  const std::string expected = train(recipe("whole", often)).checkpoint;
  const Recipe r = recipe("told", often);
  train(r, 5);
  const RunResult result = train(r, 0, first() ? "latest" : "/what/others/see");
  EXPECT_EQ(result.steps, 15);
  all().barrier();
  if (!first()) return;
  EXPECT_TRUE(same_tensors(expected, result.checkpoint));
}

TEST_F(TrainerResumeTest, DamageIsSaidOnEveryRank) {
  const Recipe r = recipe("damaged");
  const std::string checkpoint = train(r, 5).checkpoint;
  all().barrier();
  if (first()) test::spill(checkpoint + "/part-0.safetensors", "x");
  all().barrier();
  const std::string said = refusal(r, "latest");
  EXPECT_NE(said.find("part-0.safetensors is damaged"), std::string::npos) << said;
}

// Data may have moved, and what a run began with may be gone.
TEST_F(TrainerResumeTest, OldPathsAreNotNeeded) {
  const std::string weights = train(recipe("weights"), 1).checkpoint;
  if (first()) {
    for (const char* name : {"/old", "/new"}) test::spill(folder_ + name, "");
    export_model(weights, folder_ + "/old.safetensors", false);
  }
  all().barrier();
  const auto set = [this](const std::string& name, const std::string& file) {
    return name + "=\"" + folder_ + file + "\"";
  };
  const Overrides old{set("data.train.path", "/old"), set("data.validation.path", "/old"),
                      set("model.weights", "/old.safetensors")};
  train(recipe("moved", old), 4);
  all().barrier();
  if (first()) {
    fs::remove(folder_ + "/old");
    fs::remove(folder_ + "/old.safetensors");
  }
  all().barrier();
  const Overrides moved{set("data.train.path", "/new"), set("data.validation.path", "/new"),
                        set("model.weights", "/old.safetensors")};
  EXPECT_NE(test::message_of<UsageError>([&] { recipe("moved", moved); }).find("model.weights"),
            std::string::npos);
  const Recipe now = recipe("moved", moved, Files::of_a_resumed_run);
  EXPECT_EQ(train(now, 0, "latest").steps, 18);
}

// 20 ways to start a run where one is.
TEST_F(TrainerResumeTest, ARunFolderInUseIsRefusedByName) {
  const Recipe r = recipe("busy");
  const std::string checkpoint = train(r, 2).checkpoint;
  const std::string elsewhere = train(recipe("elsewhere"), 2).checkpoint;
  all().barrier();
  std::optional<RunLock> owner;
  if (first()) {
    fs::create_directory_symlink(folder_ + "/busy", folder_ + "/link");
    owner.emplace(folder_ + "/busy", nullptr, RunLock::Times());
  }
  all().barrier();
  const auto before = contents(r.output.folder);
  int ways = 0;
  for (const char* path : {"busy", "link", "busy/", "elsewhere/../busy", "./busy/."}) {
    for (const std::string& resume :
         {std::string(), std::string("latest"), checkpoint, elsewhere, std::string("overwrite")}) {
      const Recipe again = recipe(path, {"name=again", "seed=1"});
      const bool overwrite = resume == "overwrite";
      const std::string said = refusal(again, overwrite ? "" : resume, overwrite);
      EXPECT_NE(said.find(" is in use by '"), std::string::npos) << path << resume << said;
      EXPECT_NE(said.find("(process "), std::string::npos) << said;
      EXPECT_NE(said.find(" on host " + host_name()), std::string::npos) << said;
      ++ways;
    }
  }
  EXPECT_GE(ways, 20);
  all().barrier();
  EXPECT_EQ(contents(r.output.folder), before);
  all().barrier();
  owner.reset();
  all().barrier();
  EXPECT_EQ(train(r, 0, "latest").steps, 18);
}

// Nor does it remove anything, if it lost the folder while its data was opened.
TEST_F(TrainerResumeTest, ARunThatHasLostItsFolderOverwritesNothing) {
  const Recipe before = recipe("lost");
  train(before, 2);
  all().barrier();
  const std::string lock = before.output.folder + "/lock";
  registry_.add_reader(
      "thief",
      [&](const Options& o) {
        if (first()) {
          fs::remove(lock);
          test::spill(lock, R"({"host": "node7", "pid": 1, "command": "c"})");
        }
        return std::make_shared<testing_data::Stripes>(static_cast<std::size_t>(o.integer("size")));
      },
      {{"size", std::int64_t{60}, "samples"}});
  const auto kept = contents(before.output.folder + "/checkpoints");
  const Recipe after = recipe("lost", {"data.reader=thief"});
  const std::string said = refusal<Failure>(after, "", true);
  EXPECT_NE(said.find("was taken over by 'c' (process 1 on host node7"), std::string::npos) << said;
  all().barrier();
  EXPECT_EQ(contents(before.output.folder + "/checkpoints"), kept);
}

// The same command, however far the run came before.
TEST_F(TrainerResumeTest, GoesOnWhereItCanAndBeginsWhereItCannot) {
  const Recipe whole = recipe("auto-whole"), r = recipe("auto");
  const RunResult expected = train(whole);
  // Its process was lost before its first checkpoint.
  if (first()) {
    fs::create_directories(r.output.folder + "/checkpoints");
    test::spill(r.output.folder + "/recipe.toml", "seed = 3\n");
    test::spill(r.output.folder + "/metrics.jsonl", "{\"kind\": \"step\", \"step\": 99}\n");
  }
  all().barrier();
  EXPECT_NE(refusal(r, "latest").find("--resume=auto begins where there is none"),
            std::string::npos);
  EXPECT_TRUE(train(r, 7, kResumeAuto).stopped);
  EXPECT_EQ(read_text_file(r.output.folder + "/checkpoints/superseded-1/metrics.jsonl"),
            "{\"kind\": \"step\", \"step\": 99}\n");
  EXPECT_EQ(rows(r, "step").size(), 7u);
  all().barrier();
  const RunResult result = train(r, 0, kResumeAuto);
  EXPECT_EQ(result.steps, expected.steps);
  EXPECT_TRUE(same_tensors(result.checkpoint, expected.checkpoint));
  all().barrier();
  EXPECT_EQ(rows(r, "step").size(), 18u);
  all().barrier();
  // What was set aside is nothing to be removed.
  if (first()) {
    const std::string folder = r.output.folder + "/checkpoints";
    fs::create_directories(folder + "/superseded-2");
    for (const std::string& path : CheckpointFolder(folder).list())
      fs::rename(path, folder + "/superseded-2/" + fs::path(path).filename().string());
  }
  all().barrier();
  EXPECT_NE(refusal(r, kResumeAuto).find("were set aside"), std::string::npos);
  // And it can be the first start.
  EXPECT_EQ(train(recipe("auto-first"), 0, kResumeAuto).steps, expected.steps);
}

// As it began: from the checkpoint of another run, which it would not come to from nothing.
TEST_F(TrainerResumeTest, ALostRunThatWentOnFromAnotherBeginsAgainFromThere) {
  const Recipe other = recipe("lost-origin");
  const std::string origin = train(other, 7).checkpoint;
  const RunResult expected = train(recipe("lost-whole"), 0, origin);
  for (const std::string& how : {std::string(kResumeAuto), origin}) {
    const Recipe r = recipe(how == origin ? "lost-named" : "lost-auto");
    // Its process was lost before its first checkpoint.
    if (first()) {
      fs::create_directories(r.output.folder);
      test::spill(r.output.folder + "/metrics.jsonl",
                  "{\"kind\": \"run\", \"step\": 0, \"resumed_from\": \"" +
                      fs::path(origin).lexically_relative(folder_).string() +
                      "\", \"working_folder\": \"" + folder_ +
                      "\"}\n{\"kind\": \"step\", \"step\": 8}\n");
    }
    all().barrier();
    const RunResult result = train(r, 0, how);
    EXPECT_EQ(result.steps, expected.steps);
    EXPECT_TRUE(same_tensors(result.checkpoint, expected.checkpoint)) << how;
    all().barrier();
    EXPECT_EQ(rows(r, "step").size(), 11u) << how;
    all().barrier();
  }
  // Which is said where it is gone.
  const Recipe r = recipe("lost-gone");
  if (first()) {
    fs::create_directories(r.output.folder);
    test::spill(r.output.folder + "/metrics.jsonl",
                "{\"kind\": \"run\", \"step\": 0, \"resumed_from\": \"/nowhere/step-1\", "
                "\"working_folder\": \"/\"}\n{\"kind\": \"step\", \"step\": 8}\n");
  }
  all().barrier();
  const std::string said = refusal(r, kResumeAuto);
  EXPECT_NE(said.find("went on from /nowhere/step-1, and was lost before its first checkpoint"),
            std::string::npos)
      << said;
}

// A run that has lost its folder doesn't write there any more: it finds that out where it would
// write a checkpoint, or within seconds, and ends on all ranks for the same reason.
TEST_F(TrainerResumeTest, ARunWhoseFolderWasTakenOverEnds) {
  const std::string never = "checkpoint.every_epochs=0";
  for (const std::string& every : {std::string("checkpoint.every_epochs=1"), never,
                                   std::string("checkpoint.every_steps=20")}) {
    // The beats of one lock are enough.
    if (every == never && test_world().size() != 2) continue;
    const Recipe r = recipe("taken" + every.substr(11), {"training.epochs=100000", never, every});
    TrainerOptions options;
    options.progress = false;
    calls_->training = 0;
    if (first()) {
      options.should_stop = [&] {
        if (calls_->training != 20) return false;
        fs::remove(r.output.folder + "/lock");
        test::spill(r.output.folder + "/lock", R"({"host": "node7", "pid": 1, "command": "c"})");
        calls_->pause = std::chrono::milliseconds(20);
        return false;
      };
    }
    const std::string said =
        test::message_of<Failure>([&] { Trainer(test_world(), registry_, r, options).run(); });
    EXPECT_NE(said.find("was taken over by 'c' (process 1 on host node7"), std::string::npos)
        << said;
    calls_->pause = std::chrono::milliseconds(0);
    for (const std::string& theirs : all().gather_text(said)) EXPECT_EQ(theirs, said);
    if (every == never)
      EXPECT_TRUE(CheckpointFolder(r.output.folder + "/checkpoints").list().empty());
  }
}

// What adds up gradients in the order of the checkpoint has more of them now, or fewer.
TEST_F(TrainerResumeTest, ALayerThatWasFrozenMayBeTrained) {
  registry_.add_model("thawing",
                      [calls = calls_](const ModelRequest& r) {
                        auto network = std::make_shared<testing_data::Small>(r.classes, false, 0,
                                                                             false, calls);
                        for (auto& parameter : network->named_parameters()) {
                          if (parameter.key().starts_with("conv"))
                            parameter.value().set_requires_grad(!r.options.flag("frozen"));
                        }
                        return network;
                      },
                      {{"frozen", false, "the convolution is"}});
  const auto with = [this](const std::string& frozen) {
    return recipe("thawing", {"model.name=thawing", "model.options.frozen=" + frozen,
                              "optimizer.momentum=0", "checkpoint.keep=9"});
  };
  const auto kernel = [](const std::string& checkpoint) {
    return state_of(checkpoint).model.at("conv.weight");
  };
  const std::string frozen = train(with("true"), 8).checkpoint;
  const RunResult trained = train(with("false"), 5, "latest");
  EXPECT_EQ(trained.steps, 13);
  const RunResult again = train(with("true"), 0, "latest");
  EXPECT_EQ(again.steps, 18);
  EXPECT_FALSE(torch::equal(kernel(frozen), kernel(trained.checkpoint)));
  EXPECT_TRUE(torch::equal(kernel(again.checkpoint), kernel(trained.checkpoint)));
}

TEST_F(TrainerResumeTest, GoesOnFromTheBestOrFromARunFolder) {
  const Recipe r = recipe("origin", {"checkpoint.keep=9"});
  train(r, 13);
  const CheckpointFolder checkpoints(r.output.folder + "/checkpoints");
  const std::string best = checkpoints.best(), newest = checkpoints.newest();
  all().barrier();
  const Recipe copy = recipe("copy");
  EXPECT_EQ(train(copy, 0, r.output.folder).steps, 18);
  EXPECT_EQ(train(r, 0, "best").steps, 18);
  all().barrier();
  if (first()) {
    EXPECT_EQ(rows(copy, "run").at(0)["resumed_from"], newest);
    EXPECT_EQ(rows(r, "run").back()["resumed_from"], best);
  }
  all().barrier();
  EXPECT_EQ(refusal(r, folder_ + "/nosuch"), "--resume: there is no " + folder_ + "/nosuch");
  const Recipe unscored = recipe("unscored", {"evaluation.every_epochs=0"});
  train(unscored, 7);
  EXPECT_EQ(refusal(unscored, "best"), "--resume: there is no checkpoint with a score in " +
                                           unscored.output.folder + "/checkpoints");
}

}  // namespace
}  // namespace convoy::train
