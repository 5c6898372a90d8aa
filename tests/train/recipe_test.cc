#include "convoy/train/recipe.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/placement.h"
#include "tests/base/scratch.h"
#include "train/recipe/former.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

Vocabulary vocabulary() {
  Vocabulary v;
  v.models["lenet"] = {};
  v.models["resnet18"] = {{"zero_init_residual", false, "doc"}};
  v.readers["files"] = {{"path", std::string(), "where", Option::Kind::path, true},
                        {"count", std::int64_t{7}, "how many"},
                        {"scale", 1.5, "a number"}};
  v.readers["lists"] = {{"files", std::vector<std::string>(), "which", Option::Kind::path, true}};
  v.tasks["classification"] = {{"label_smoothing", 0.0, "doc"}};
  v.tasks["one_vs_all"] = {{"label_smoothing", 0.0, "doc"}};
  v.strategies["sync"] = {{"bucket", std::string("8MiB"), "doc"}};
  v.strategies["hybrid"] = {{"scheme", std::string("b"), "doc"},
                            {"rounds", std::int64_t{1}, "doc"}};
  v.layers["resnet18"] = [](const Recipe&) {
    return std::vector<std::string>{"conv1", "conv2", "fc1", "fc2"};
  };
  v.strategy_checks["hybrid"] = [](const Recipe& recipe, std::vector<std::string>& problems) {
    if (recipe.strategy_options.integer("rounds") < 1)
      problems.push_back("hybrid.rounds has to be at least 1");
    check_placement(recipe, {"replicated", "units"}, problems);
  };
  return v;
}

// A folder with a file "data" in it.
class RecipeTest : public testing::Test {
 protected:
  void SetUp() override { test::spill(folder_.path("data"), "x"); }

  Recipe parse(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return parse_recipe({text, "dir/mine.toml", folder_.path()}, overrides, vocabulary());
  }
  std::string problems(const std::string& text,
                       const std::vector<std::string>& overrides = {}) const {
    try {
      parse(text, overrides);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  test::Scratch folder_;
};

constexpr const char* kGood = R"(
[model]
name = "resnet18"
[model.options]
zero_init_residual = true
[data]
reader = "files"
[data.train]
path = "data"
scale = 2
[optimizer]
lr = 0.5
momentum = 0.9
[[optimizer.groups]]
parameters = ["*.bias"]
weight_decay = 0
[training]
batch = 32
epochs = 2
)";

TEST_F(RecipeTest, ReadsWhatItSays) {
  const Recipe r = parse(kGood);
  EXPECT_EQ(r.name, "mine");
  EXPECT_EQ(r.model.name, "resnet18");
  EXPECT_TRUE(r.model.options.flag("zero_init_residual"));
  EXPECT_EQ(r.data.train.text("path"), folder_.path("data"));
  EXPECT_EQ(r.data.train.integer("count"), 7);
  EXPECT_EQ(r.data.train.number("scale"), 2.0);
  EXPECT_FALSE(r.data.has_validation);
  ASSERT_EQ(r.optimizer.groups.size(), 1u);
  EXPECT_EQ(r.optimizer.groups[0].weight_decay, 0);
  EXPECT_EQ(r.training.batch, 32);
  EXPECT_EQ(r.strategy_options.text("bucket"), "8MiB");
}

TEST_F(RecipeTest, PrintsARecipeThatReadsBackTheSameElsewhere) {
  Recipe r =
      parse(kGood, {"name=\"a \\\"quoted\\\" \\\\ name\"", "task.options.label_smoothing=0.1"});
  for (const bool comments : {false, true}) {
    const std::string text = print_recipe(r, comments);
    const Recipe again = parse_recipe({text, "other.toml", "/"}, {}, vocabulary());
    EXPECT_EQ(print_recipe(again, false), print_recipe(r, false));
  }
  EXPECT_EQ(r.name, "a \"quoted\" \\ name");
}

TEST_F(RecipeTest, MistakesOfPlacementAreSaidTogether) {
  const std::string text = std::string(kGood) + R"(
[grid]
partitions = 2
[[placement.layers]]
layers = ["fc*", "fc3", "encoder.*"]
how = "unit"
parts = [2, 1, 1]
[[placement.layers]]
how = "units"
parts = [0, 0]
)";
  const std::string said = problems(text, {"strategy=hybrid", "hybrid.rounds=0"});
  for (const char* part :
       {"placement.layers[0].layers: resnet18 has no layer that fits 'fc3'; did you mean fc1?",
        "resnet18 has no layer that fits 'encoder.*'; it has conv1, conv2, fc1, fc2",
        "placement.layers[0].how is 'unit'; with hybrid it can be replicated, units; did you mean "
        "units?",
        "placement.layers[0].parts has 3 numbers; it has to have one for each of the partitions: "
        "grid.partitions is 2",
        "placement.layers[1].parts leaves nothing to any partition",
        "hybrid.rounds has to be at least 1"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  }
  // One recipe serves several strategies: what this one has no use for is only looked up.
  const std::string sync = problems(text, {"strategy=sync"});
  EXPECT_NE(sync.find("no layer that fits 'fc3'"), std::string::npos) << sync;
  EXPECT_EQ(sync.find(".how is 'unit'"), std::string::npos) << sync;
}

TEST_F(RecipeTest, LayersArePlacedByTables) {
  const Recipe r = parse(std::string(kGood) + R"(
[grid]
partitions = 4
[[placement.layers]]
layers = ["fc*", "conv*"]
how = "units"
parts = [2, 1, 1, 1]
[[placement.layers]]
layers = ["fc2"]
how = "replicated"
)");
  EXPECT_EQ(r.grid.partitions, 4);
  EXPECT_EQ(r.grid.replicas, 0);
  ASSERT_EQ(r.placement.layers.size(), 2u);
  EXPECT_EQ(r.placement.layers[0].parts, (std::vector<double>{2, 1, 1, 1}));
  EXPECT_EQ(r.placement.layers[1].how, "replicated");
  const Recipe again = parse_recipe({print_recipe(r, true), "again.toml", "/"}, {}, vocabulary());
  EXPECT_EQ(again.placement.layers, r.placement.layers);
  const std::string said = problems(std::string(kGood) + R"(
[grid]
partitions = 0
replicas = -1
[[placement.layers]]
layers = ["fc*"]
parts = [-1]
)");
  for (const char* part :
       {"grid.partitions is 0; it has to be at least 1", "grid.replicas is -1",
        "placement.layers[0].how is missing", "placement.layers[0].parts can't be negative"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  }
}

// One recipe may serve several strategies.
TEST_F(RecipeTest, TablesOfOtherStrategiesAreReadAndLeft) {
  const std::string both = std::string(kGood) + R"(
[sync]
bucket = "1MiB"
[hybrid]
scheme = "c"
)";
  const Recipe sync = parse(both), hybrid = parse(both, {"strategy=hybrid"});
  EXPECT_EQ(sync.strategy_options.text("bucket"), "1MiB");
  EXPECT_EQ(hybrid.strategy_options.text("scheme"), "c");
  EXPECT_NE(problems(both, {"hybrid.shceme=a"}).find("did you mean hybrid.scheme?"),
            std::string::npos);
  EXPECT_NE(problems(both + "[hybird]\n").find("did you mean hybrid?"), std::string::npos);
  // What makes no sense in them is said only where they are chosen.
  EXPECT_EQ(problems(both, {"hybrid.rounds=0"}), "");
  EXPECT_EQ(problems(both, {"hybrid.rounds=0", "strategy=hybrid", "training.batch=0"}),
            "training.batch is missing: the images per update\n"
            "hybrid.rounds has to be at least 1");
}

TEST_F(RecipeTest, TasksHaveKeys) {
  const Recipe r = parse(kGood, {"task.name=one_vs_all", "task.options.label_smoothing=0.25"});
  EXPECT_EQ(r.task.name, "one_vs_all");
  EXPECT_EQ(r.task.options.number("label_smoothing"), 0.25);
  EXPECT_NE(problems(kGood, {"task.name=one_vs_al"}).find("did you mean one_vs_all?"),
            std::string::npos);
  EXPECT_NE(problems(kGood, {"loss.name=one_vs_all"}).find("loss: there is no such key"),
            std::string::npos);
}

// What checkpoints of former versions have in them.
TEST_F(RecipeTest, FormerRecipesAreReadAsTodays) {
  const std::string former = std::string(kGood) + R"(
[loss]
name = "one_vs_all"
label_smoothing = 0.125
)";
  const Recipe r = parse(of_today(former));
  EXPECT_EQ(r.task.name, "one_vs_all");
  EXPECT_EQ(r.task.options.number("label_smoothing"), 0.125);
  EXPECT_EQ(r.optimizer.groups.size(), 1u);
  EXPECT_EQ(of_today(kGood), kGood);
  const auto target = [this](const char* level, const char* best) {
    const std::string text = std::string(kGood) + "target = " + level +
                             "\n[data.validation]\npath = \"data\"\n[checkpoint]\nbest = \"" +
                             best + "\"\n";
    return parse(of_today(text)).training.target;
  };
  EXPECT_EQ(target("0.5", "").metric, "top1");
  EXPECT_EQ(target("0.5", "loss").metric, "loss");
  EXPECT_EQ(target("0.5", "").level, 0.5);
  EXPECT_EQ(target("0.0", "").metric, "");
  EXPECT_EQ(of_today("no [toml"), "no [toml");
}

TEST_F(RecipeTest, AllProblemsAtOnce) {
  const std::string text = problems(R"(
seed = "seven"
[model]
name = "resnet81"
[data]
reader = "files"
on_bad = "ignore"
[data.train]
path = "nowhere"
cuont = 3
[optimizer]
name = "adam"
momentum = 0.9
[training]
btach = 3
epochs = 2
steps = 100
)");
  for (const char* part :
       {"mine.toml:2: seed: has to be a whole number",
        "mine.toml:4: model.name: there is no model 'resnet81'; there are lenet, resnet18; did you "
        "mean resnet18?",
        "mine.toml:7: data.on_bad: 'ignore' is none of fail, skip",
        "mine.toml:9: data.train.path: there is no file or folder",
        "mine.toml:10: data.train.cuont: there is no such key; did you mean data.train.count?",
        "mine.toml:15: training.btach: there is no such key; did you mean training.batch?",
        "optimizer.momentum is for sgd and sgd_velocity, not adam", "training.batch is missing",
        "training.epochs and training.steps contradict each other"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
}

TEST_F(RecipeTest, WhatIsMissingIsNamed) {
  const std::string text = problems("");
  for (const char* part : {"model.name: is missing; the models are lenet, resnet18",
                           "data.reader: is missing; the readers are files, lists",
                           "training.batch is missing", "how long to train?"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
  EXPECT_NE(problems("[model]\nname = \"lenet\"\n[data]\nreader = \"files\"\n")
                .find("data.train.path: is missing: where"),
            std::string::npos);
}

TEST_F(RecipeTest, NoToml) {
  EXPECT_EQ(problems("a = \n").find("mine.toml:1: "), 0u) << problems("a = \n");
}

TEST_F(RecipeTest, Overrides) {
  EXPECT_EQ(parse(kGood, {"training.batch=64", "training.batch=128"}).training.batch, 128);
  EXPECT_EQ(parse(kGood, {"name=plain-text"}).name, "plain-text");
  EXPECT_EQ(parse(kGood, {"output.folder=here"}).output.folder, fs::absolute("here").string());
  EXPECT_EQ(problems(kGood, {"training.bacth=1"}),
            "--set training.bacth: there is no such key; did you mean training.batch?");
  EXPECT_EQ(problems(kGood, {"training.batch"}),
            "--set training.batch: write it as key=value, e.g. training.batch=64");
  EXPECT_EQ(problems(kGood, {"seed.x=1", "seed=2"}), "");
  EXPECT_NE(problems(kGood, {"optimizer.lr.x=1"}).find("lr is a value, not a table"),
            std::string::npos);
}

// A text needs no quotes, even where it could be something else in TOML.
TEST_F(RecipeTest, OverridesOfTextsAreTakenAsTyped) {
  EXPECT_EQ(parse(kGood, {"name=nan"}).name, "nan");
  EXPECT_EQ(parse(kGood, {"name=2024-05-01"}).name, "2024-05-01");
  EXPECT_EQ(parse(kGood, {"name=true"}).name, "true");
  EXPECT_EQ(parse(kGood, {"name=007"}).name, "007");
  EXPECT_EQ(parse(kGood, {"name=\"1e5\""}).name, "1e5");
  EXPECT_EQ(fs::path(parse(kGood, {"output.folder=inf"}).output.folder).filename(), "inf");
  EXPECT_NE(problems(kGood, {"name=[1]"}).find("name: has to be a text"), std::string::npos);
  const std::string in_the_file = std::string("name = nan\n") + kGood;
  EXPECT_NE(problems(in_the_file).find("name: has to be a text"), std::string::npos);
}

TEST_F(RecipeTest, StepsInsteadOfEpochs) {
  const Recipe r = parse(kGood, {"training.steps=20"});
  EXPECT_EQ(r.training.steps, 20);
  EXPECT_EQ(r.training.epochs, 0);
  EXPECT_NE(problems(kGood, {"training.steps=20", "training.epochs=2"}), "");
}

TEST_F(RecipeTest, FilesOfACheckpointMayBeGone) {
  const std::string set = "data.train.path=\"/nowhere\"";
  EXPECT_NE(problems(kGood, {set}), "");
  EXPECT_EQ(parse_recipe({kGood, "r", "/"}, {set}, vocabulary(), Files::may_be_missing)
                .data.train.text("path"),
            "/nowhere");
  const std::string weights = "model.weights=\"/nowhere.safetensors\"";
  EXPECT_NE(problems(kGood, {weights}), "");
  EXPECT_EQ(
      parse_recipe({kGood, "r", folder_.path()}, {weights}, vocabulary(), Files::of_a_resumed_run)
          .model.weights,
      "/nowhere.safetensors");
  EXPECT_THROW(parse_recipe({kGood, "r", "/"}, {set}, vocabulary(), Files::of_a_resumed_run),
               UsageError);
}

TEST_F(RecipeTest, EnvironmentInPaths) {
  ::setenv("CONVOY_TEST_FOLDER", folder_.path().c_str(), 1);
  const std::string set = "data.train.path=\"${CONVOY_TEST_FOLDER}/data\"";
  EXPECT_EQ(parse(kGood, {set}).data.train.text("path"), folder_.path("data"));
  ::unsetenv("CONVOY_TEST_FOLDER");
  EXPECT_NE(problems(kGood, {set}).find("needs the environment variable CONVOY_TEST_FOLDER"),
            std::string::npos);
}

TEST_F(RecipeTest, LimitsAreTheTransforms) {
  EXPECT_EQ(problems(kGood, {"data.size=65536", "data.augment.crop=random_padded",
                             "data.augment.padding=65536"}),
            "");
  EXPECT_EQ(problems(kGood, {"data.store=auto", "data.store_memory=1.5GiB"}), "");
}

TEST_F(RecipeTest, Contradictions) {
  const auto expect = [this](const std::vector<std::string>& overrides, const std::string& part) {
    const std::string text = problems(kGood, overrides);
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  };
  expect({"data.augment.crop=random_resized"},
         "data.augment.crop is random_resized; that needs data.size");
  expect({"data.augment.padding=3"}, "data.augment.padding is for crop = \"random_padded\"");
  expect({"data.augment.left=3"}, "data.augment.left is for crop = \"fixed\"");
  expect({"data.augment.crop=random_padded", "data.augment.padding=65537"},
         "data.augment.padding is 65537; it has to be 0 to 65536");
  expect({"data.size=-1"}, "data.size is -1; it has to be 0 to 65536");
  expect({"data.store_memory=1GiB"}, "data.store_memory is for data.store");
  expect({"data.store=host", "data.store_memory=much"},
         "data.store_memory is 'much'; it has to be a size");
  expect({"data.store=host", "data.store_memory=0"}, "data.store_memory");
  expect({"checkpoint.memory=much"}, "checkpoint.memory is 'much'; it has to be a size");
  expect({"data.threads=1025"}, "data.threads has to be 1 to 1024, or 0");
  expect({"data.augment.lighting=-1"}, "data.augment.lighting has to be 0 to 10");
  expect({"data.augment.contrast=1.5"}, "data.augment.contrast has to be 0 to 1");
  expect({"data.size=28", "data.augment.crop=ten"},
         "data.augment.crop is ten; ten crops of an image are for data.evaluate");
  expect({"data.size=224", "data.evaluate.resize=200"},
         "data.evaluate.resize is 200, smaller than");
  expect({"schedule.name=step"}, "schedule.milestones is empty");
  expect({"schedule.name=step", "schedule.milestones=[1, 5]"}, "lies beyond the end of training");
  expect({"schedule.name=step", "schedule.milestones=[2, 1]"}, "ascending");
  expect({"optimizer.lr=-1"}, "lr");
  expect({"optimizer.nesterov=true", "optimizer.momentum=0"}, "nesterov");
  expect({"training.accumulate=64"}, "training.accumulate is more than training.batch");
  expect({"evaluation.every_epochs=2"},
         "evaluation.every_epochs is for recipes with [data.validation]");
  expect({"evaluation.every_steps=2"},
         "evaluation.every_steps is for recipes with [data.validation], or evaluation.from");
  expect({"evaluation.from=training", "evaluation.fraction=0"},
         "evaluation.fraction has to be above 0, and at most 1");
  expect({"evaluation.from=training", "evaluation.fraction=1.01"}, "at most 1");
  expect({"evaluation.from=trainin"}, "'trainin' is none of validation, training; did you mean");
  expect({"training.target.metric=loss"}, "training.target needs [data.validation]");
  expect({"training.target.level=1"}, "training.target.level is for training.target.metric");
  expect({"evaluation.from=training", "training.target.metric=loss", "evaluation.every_epochs=0"},
         "training.target is looked for in evaluations; give evaluation.every_steps");
  expect({"data.mean=[1, 2]", "data.deviation=[1, 2, 3]"},
         "data.mean has 2 values, data.deviation 3");
  expect({"model.partial=true"}, "model.partial is for model.weights");
}

TEST_F(RecipeTest, Differences) {
  const std::string a = print_recipe(parse(kGood), false);
  const std::string b =
      print_recipe(parse(kGood, {"training.batch=64", "data.train.count=8"}), false);
  EXPECT_EQ(recipe_difference(a, a, "on rank 0"), "");
  EXPECT_EQ(recipe_difference(b, a, "on rank 0"),
            "data.train.count is 8, on rank 0 it is 7; training.batch is 64, on rank 0 it is 32");
}

TEST_F(RecipeTest, OptimizerRules) {
  const Recipe r = parse(kGood, {"optimizer.nesterov=true"});
  const auto sgd = std::get<optim::Sgd>(optimizer_rule(r.optimizer));
  EXPECT_EQ(sgd, (optim::Sgd{.lr = 0.5, .momentum = 0.9, .nesterov = true}));
  OptimizerRecipe adagrad{.name = "adagrad", .lr = 0.1, .initial_accumulator = 2};
  EXPECT_EQ(std::get<optim::Adagrad>(optimizer_rule(adagrad)).eps, 1e-10);
  EXPECT_EQ(std::get<optim::Adagrad>(optimizer_rule(adagrad)).initial_accumulator_value, 2);
}

}  // namespace
}  // namespace convoy::train
