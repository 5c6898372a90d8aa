#include "convoy/train/optimizer_rule.h"
#include "tests/train/own_keys.h"
#include "tests/train/recipe_fixture.h"
#include "train/recipe/former.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

TEST_F(RecipeTest, WhatItGivesIsKnown) {
  const RecipeText text{"name = \"x\"\n[evaluation]\nfraction = 1.0\n", "mine.toml", "."};
  EXPECT_TRUE(gives(text, {}, "name"));
  EXPECT_TRUE(gives(text, {}, "evaluation.fraction"));
  EXPECT_FALSE(gives(text, {}, "evaluation.batch"));
  EXPECT_TRUE(gives(text, {"evaluation.batch=64"}, "evaluation.batch"));
  EXPECT_FALSE(gives(text, {}, "training.batch"));
  EXPECT_THROW(gives({"x =", "mine.toml", "."}, {}, "x"), UsageError);
}

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

TEST_F(RecipeTest, TasksHaveKeys) {
  const Recipe r = parse(kGood, {"task.name=one_vs_all", "task.options.label_smoothing=0.25"});
  EXPECT_EQ(r.task.name, "one_vs_all");
  EXPECT_EQ(r.task.options.number("label_smoothing"), 0.25);
  EXPECT_NE(problems(kGood, {"task.name=one_vs_al"}).find("did you mean one_vs_all?"),
            std::string::npos);
  EXPECT_NE(problems(kGood, {"loss.name=one_vs_all"}).find("loss: there is no such key"),
            std::string::npos);
}

TEST_F(RecipeTest, DevicesAreNamedAsTheyAreTaken) {
  EXPECT_EQ(parse(kGood).device, "cpu");
  EXPECT_FALSE(parse(kGood).tf32);
  for (const std::string device : {"cpu", "cuda", "cuda:1"})
    EXPECT_EQ(parse(kGood, {"device=\"" + device + "\"", "tf32=true"}).device, device);
  for (const std::string wrong : {"gpu", "cuda:", "cuda:-1", "cuda:one"}) {
    const std::string problem = problems(kGood, {"device=\"" + wrong + "\""});
    EXPECT_NE(problem.find("device is '" + wrong + "'; it can be cpu, cuda, or cuda:N"),
              std::string::npos)
        << problem;
  }
}

TEST_F(RecipeTest, AKeyWithoutItsTableAndATextWithoutQuotesAreFound) {
  EXPECT_NE(
      problems(kGood, {"lr=0.1"}).find("lr: there is no such key; did you mean optimizer.lr?"),
      std::string::npos);
  EXPECT_NE(problems("[model]\nname = resnet18\n").find("; a text stands in quotation marks"),
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
        "mine.toml:13: optimizer.momentum is for sgd, sgd_velocity and lars, not adam, whose own "
        "keys are beta1, beta2, eps and amsgrad",
        "training.batch is missing", "training.epochs and training.steps contradict each other"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
}

// One mistake brings no others that are none.
TEST_F(RecipeTest, WhatFollowsFromAKeyOfAnotherTypeIsNotSaid) {
  EXPECT_EQ(problems(kGood, {"training.batch=1.5"}),
            "--set training.batch: has to be a whole number");
  EXPECT_EQ(problems(kGood, {"grid.partitions=two", "strategy=hybrid",
                             "placement.layers=[{how=\"units\", parts=[1, 1]}]"}),
            "--set grid.partitions: has to be a whole number");
}

TEST_F(RecipeTest, OverridesAreTheirPlace) {
  EXPECT_EQ(problems(kGood, {"foo.bar=1"}).find("--set foo: there is no such key"), 0u)
      << problems(kGood, {"foo.bar=1"});
  EXPECT_EQ(problems(kGood, {"optimizer.groups=[{max_dims=1, lr_scal=2}]"})
                .find("--set optimizer.groups[0].lr_scal: there is no such key"),
            0u);
  EXPECT_EQ(problems(kGood, {"optimizer.groups=[{max_dims=1, lr_scale=-2}]"}),
            "--set optimizer.groups[0].lr_scale is negative");
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

TEST_F(RecipeTest, StepsInsteadOfEpochs) {
  const Recipe r = parse(kGood, {"training.steps=20"});
  EXPECT_EQ(r.training.steps, 20);
  EXPECT_EQ(r.training.epochs, 0);
  EXPECT_NE(problems(kGood, {"training.steps=20", "training.epochs=2"}), "");
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
  expect({"optimizer.momentum=1.5"}, "optimizer.momentum has to be below 1");
  expect({"name=.."}, "name is '..', which is no folder of its own");
  expect({"training.accumulate=64"}, "training.accumulate is more than training.batch");
  expect({"evaluation.every_epochs=2"},
         "evaluation.every_epochs is for recipes with [data.validation]");
  expect({"evaluation.every_steps=2"},
         "evaluation.every_steps is for recipes with [data.validation], or evaluation.from");
  expect({"evaluation.from=training", "evaluation.fraction=0"},
         "evaluation.fraction has to be above 0, and at most 1");
  expect({"evaluation.from=training", "evaluation.fraction=1.01"}, "at most 1");
  expect({"evaluation.from=training", "evaluation.training_fraction=0.1"},
         "evaluation.training_fraction is for evaluations on data.validation");
  expect({"evaluation.from=trainin"}, "'trainin' is none of validation, training; did you mean");
  expect({"training.target.metric=loss"}, "training.target needs [data.validation]");
  expect({"training.target.level=1"}, "training.target.level is for training.target.metric");
  expect({"evaluation.from=training", "training.target.metric=loss", "evaluation.every_epochs=0"},
         "training.target is looked for in evaluations; give evaluation.every_steps");
  expect({"data.mean=[1, 2]", "data.deviation=[1, 2, 3]"},
         "data.mean has 2 values, data.deviation 3");
  expect({"model.partial=true"}, "model.partial is for model.weights");
  expect({"data.mean=[1e39]"}, "data.mean is 1e+39, more than a float can hold");
  expect({"data.deviation=[1e-40]"}, "data.deviation is 1e-40; it has to be at least 1e-30");
  expect({"data.size=8", "data.augment.crop=random_resized", "data.augment.ratio=[0.5, inf]"},
         "data.augment.ratio has to be two finite numbers, 0 < least <= largest");
  expect({"data.train.path=\"\""}, "data.train.path: is empty: where");
  expect({"data.reader=lists", "data.train.files=[]"}, "data.train.files: is empty: which");
  expect({"data.reader=lists", "data.train.files=[\"\"]"}, "data.train.files: is empty: which");
  expect({"optimizer.groups=[{parameters=[\"*\"], max_dims=-1}]"},
         "optimizer.groups[0].max_dims is negative; 0 means any");
  expect({"checkpoint.every_minutes=inf"}, "checkpoint.every_minutes has to be a number from 0 on");
  expect({"model.classes=4294967296"}, "model.classes is 4294967296; it has to be 0 to 2147483647");
}

TEST_F(RecipeTest, Differences) {
  const std::string a = print_recipe(parse(kGood), false);
  const std::string b =
      print_recipe(parse(kGood, {"training.batch=64", "data.train.count=8"}), false);
  EXPECT_EQ(recipe_difference(a, a, "on rank 0"), "");
  EXPECT_EQ(recipe_difference(b, a, "on rank 0"),
            "data.train.count is 8, on rank 0 it is 7; training.batch is 64, on rank 0 it is 32");
  // Each has a table of its own, of which one word is enough.
  const std::string c = print_recipe(parse(kGood, {"strategy=hybrid", "training.batch=64"}), false);
  EXPECT_EQ(
      recipe_difference(c, a, "on rank 0"),
      "strategy is \"hybrid\", on rank 0 it is \"sync\"; training.batch is 64, on rank 0 it is "
      "32; there is a table [hybrid], on rank 0 there is none; there is no table [sync], on "
      "rank 0 there is one");
}

// Tables of a list are counted by themselves: those of another are the same with one more of these.
TEST_F(RecipeTest, TablesOfEachListAreNumberedByThemselves) {
  const std::string rules = "placement.layers=[{layers=[\"fc1\"], how=\"units\"}]";
  const auto groups = [&](const std::string& list) {
    return print_recipe(parse(kGood, {rules, "optimizer.groups=" + list}), false);
  };
  const std::string one = groups("[{max_dims=1}]"), two = groups("[{max_dims=1}, {max_dims=2}]");
  const auto changes = recipe_changes(two, one);
  EXPECT_FALSE(changes.empty());
  for (const RecipeChange& change : changes)
    EXPECT_EQ(change.key.find("optimizer.groups[1]."), 0u) << change.key;
  for (const RecipeChange& change : recipe_changes(one, ""))
    EXPECT_EQ(change.key.find("placement.layers[1]"), std::string::npos) << change.key;
}

TEST_F(RecipeTest, DifferencesOfVersionsAreKnownAsSuch) {
  for (const char* key : {"optimizer.momentum", "optimizer.of_a_plugin", "schedule.end"}) {
    EXPECT_TRUE(is_of_an_earlier_version({key, "", "0.9"})) << key;
    EXPECT_FALSE(is_of_an_earlier_version({key, "0.9", ""})) << key;
    EXPECT_FALSE(is_of_an_earlier_version({key, "0.9", "0.5"})) << key;
  }
  for (const char* key : {"optimizer.name", "optimizer.lr", "optimizer.groups[0].lr_scale",
                          "schedule.unit", "training.batch", "schedule"})
    EXPECT_FALSE(is_of_an_earlier_version({key, "", "1"})) << key;
}

TEST_F(RecipeTest, KeysThatHaveComeSinceAreAtTheirDefaults) {
  std::string before = print_recipe(parse(kGood, {}), false);
  const std::string line = "tf32 = false\n";
  ASSERT_NE(before.find(line), std::string::npos);
  before.erase(before.find(line), line.size());
  const auto differ = [this, &before](const std::vector<std::string>& overrides) {
    auto changes = recipe_changes(print_recipe(parse(kGood, overrides), false), before);
    std::erase_if(changes, is_of_an_earlier_version);
    return changes.size();
  };
  EXPECT_EQ(differ({}), 0u);
  EXPECT_EQ(differ({"tf32=true"}), 1u);
}

TEST_F(RecipeTest, OptimizerRules) {
  const Recipe r = parse(kGood, {"optimizer.nesterov=true"});
  const auto sgd = std::get<optim::Sgd>(optimizer_rule(r.optimizer));
  EXPECT_EQ(sgd, (optim::Sgd{.lr = 0.5, .momentum = 0.9, .nesterov = true}));
  const OptimizerRecipe adagrad{
      .name = "adagrad", .lr = 0.1, .options = own_keys({{"initial_accumulator", 2.0}})};
  EXPECT_EQ(std::get<optim::Adagrad>(optimizer_rule(adagrad)).eps, 1e-10);
  EXPECT_EQ(std::get<optim::Adagrad>(optimizer_rule(adagrad)).initial_accumulator_value, 2);
  const OptimizerRecipe lars{.name = "lars",
                             .lr = 2,
                             .weight_decay = 0.1,
                             .options = own_keys({{"momentum", 0.9}, {"trust_coefficient", 0.01}})};
  EXPECT_EQ(
      std::get<optim::Lars>(optimizer_rule(lars)),
      (optim::Lars{.lr = 2, .momentum = 0.9, .weight_decay = 0.1, .trust_coefficient = 0.01}));
  const OptimizerRecipe lamb{
      .name = "lamb", .lr = 2, .weight_decay = 0.1, .options = own_keys({{"beta1", 0.8}})};
  EXPECT_EQ(std::get<optim::Lamb>(optimizer_rule(lamb)),
            (optim::Lamb{.lr = 2, .beta1 = 0.8, .weight_decay = 0.1}));
  const auto dims = [&lars](const ParameterGroupRecipe& group) {
    return values_of_group(lars, group).options.integer("trust_min_dims");
  };
  EXPECT_EQ(dims({.trust_min_dims = 0}), 0);
  EXPECT_EQ(dims({}), 2);
}

// What a program puts together has the defaults of what it leaves out, and nothing that is no key.
TEST_F(RecipeTest, RecipesThatWereNotReadAreCompleted) {
  const OptimizerRecipe adam = with_defaults(OptimizerRecipe{.name = "adam"});
  EXPECT_EQ(adam.options.number("beta1"), 0.9);
  EXPECT_TRUE(has_rule(adam));
  EXPECT_FALSE(has_rule({.name = "nobody's"}));
  EXPECT_THROW(optimizer_rule({.name = "nobody's"}), std::logic_error);
  EXPECT_THROW(with_defaults(OptimizerRecipe{.name = "adam", .options = own_keys({{"x", 0.9}})}),
               std::logic_error);
  // As a recipe that was read.
  const Recipe r = parse(kGood);
  EXPECT_EQ(with_defaults(r.optimizer).options, r.optimizer.options);
  EXPECT_EQ(with_defaults(OptimizerRecipe{.options = own_keys({{"momentum", 0.9}})}).options,
            r.optimizer.options);
}

TEST_F(RecipeTest, KeysOfLayerwiseRulesAndSchedules) {
  const auto expect = [&](std::vector<std::string> overrides, const std::string& part) {
    overrides.push_back("optimizer.momentum=0");
    const std::string text = problems(kGood, overrides);
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  };
  expect({"optimizer.trust_coefficient=0.1"}, "optimizer.trust_coefficient is for lars, not sgd");
  expect({"optimizer.trust_min_dims=0"}, "optimizer.trust_min_dims is for lars and lamb, not sgd");
  expect({"optimizer.groups=[{max_dims=1, trust_min_dims=0}]"},
         "optimizer.groups[0].trust_min_dims is for lars and lamb, not sgd");
  expect({"optimizer.name=lamb", "optimizer.trust_coefficient=0.1"},
         "optimizer.trust_coefficient is for lars, not lamb");
  expect({"optimizer.name=lamb", "optimizer.amsgrad=true"},
         "optimizer.amsgrad is for adam and adamw, not lamb");
  expect({"optimizer.name=lars", "optimizer.beta1=0.8"},
         "optimizer.beta1 is for adam, adamw and lamb, not lars");
  expect({"optimizer.name=lars", "optimizer.trust_coefficient=-1"},
         "optimizer: lars: trust_coefficient is -1; it has to be 0 or more");
  expect({"optimizer.name=lars", "optimizer.trust_coefficient=inf"},
         "optimizer.trust_coefficient is inf; it has to be a finite number");
  expect({"optimizer.name=lars", "optimizer.trust_min_dims=-1"},
         "optimizer.trust_min_dims is negative");
  expect({"optimizer.name=lars", "optimizer.groups=[{max_dims=1, trust_min_dims=-2}]"},
         "optimizer.groups[0].trust_min_dims is negative");
  for (const char* name : {"lars", "lamb"}) {
    EXPECT_EQ(problems(kGood, {std::string("optimizer.name=") + name, "optimizer.momentum=0",
                               "optimizer.trust_min_dims=0",
                               "optimizer.groups=[{max_dims=1, trust_min_dims=3}]"}),
              "");
  }
  const std::string cosine = "schedule.name=cosine", cycle = "schedule.name=one_cycle",
                    polynomial = "schedule.name=polynomial";
  expect({cosine, "schedule.power=2"}, "schedule.power is for the schedule polynomial, not cosine");
  expect({cosine, "schedule.pct_start=0.2"},
         "schedule.pct_start is for the schedule one_cycle, not cosine");
  expect({cycle, "schedule.end=0.1"},
         "schedule.end is for the schedules cosine and polynomial, not one_cycle");
  expect({cycle, "schedule.warmup=1"},
         "schedule.warmup is for other schedules than one_cycle, whose rate rises by itself "
         "(schedule.pct_start)");
  expect({cycle, "schedule.pct_start=1.5"}, "schedule.pct_start has to be 0 to 1");
  expect({cycle, "schedule.pct_start=nan"}, "schedule.pct_start has to be 0 to 1");
  expect({cycle, "schedule.div_factor=0.5"}, "schedule.div_factor is 0.5; it has to be at least 1");
  expect({cycle, "schedule.final_div_factor=inf"},
         "schedule.final_div_factor is inf; it has to be a finite number");
  expect({polynomial, "schedule.power=0"}, "schedule.power has to be above 0");
  EXPECT_EQ(
      problems(kGood, {polynomial, "schedule.power=2", "schedule.end=0.1", "schedule.warmup=0.5"}),
      "");
  EXPECT_EQ(problems(kGood, {cycle, "schedule.pct_start=0.2"}), "");
}

}  // namespace
}  // namespace convoy::train
