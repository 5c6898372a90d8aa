// What is set from outside a recipe, and what its tables for other strategies and layers say.
#include "tests/train/recipe_fixture.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

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
       {"grid.partitions is 0; it has to be 1 to 1000000", "grid.replicas is -1",
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
            "--set training.batch is missing: the images per update\n"
            "--set hybrid.rounds has to be at least 1");
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

TEST_F(RecipeTest, KeysOfAReaderThatIsReplacedAreLeftOut) {
  // "path" and "scale" are those of the other reader.
  const std::string files = "data.train.files=[\"" + folder_.path("data") + "\"]";
  const Recipe r = parse(kGood, {"data.reader=lists", files});
  EXPECT_EQ(r.data.reader, "lists");
  EXPECT_EQ(r.data.train.texts("files").size(), 1u);
  EXPECT_NE(problems(kGood, {"data.reader=lists"}).find("data.train.files: is missing"),
            std::string::npos);
  EXPECT_NE(problems(kGood, {"data.reader=lists", files, "data.train.fiels=[\"data\"]"})
                .find("data.train.fiels: there is no such key; did you mean data.train.files?"),
            std::string::npos);
  // Without being replaced, it has its keys.
  EXPECT_NE(problems(kGood, {files}).find("there is no such key"), std::string::npos);
  // What a checkpoint was trained on is not needed to use it.
  const Recipe used =
      parse_recipe({kGood, "r", "/"}, {"data.reader=lists", "data.validation.files=[\"other\"]"},
                   vocabulary(), Files::may_be_missing);
  EXPECT_EQ(used.data.validation.texts("files").front(), fs::absolute("other").string());
  EXPECT_NE(test::message_of<UsageError>([] {
              parse_recipe({kGood, "r", "/"}, {"data.reader=lists", "data.validation.path=x"},
                           vocabulary(), Files::may_be_missing);
            }).find("--set data.validation.path: there is no such key"),
            std::string::npos);
  // Nor is what it was evaluated on: whoever opens either of them finds that it is not named.
  const std::string both = std::string(kGood) + "[data.validation]\npath = \"data\"\n";
  const Recipe trained = parse_recipe({both, "r", "/"}, {"data.reader=lists", files}, vocabulary(),
                                      Files::may_be_missing);
  EXPECT_TRUE(trained.data.has_validation);
  EXPECT_TRUE(trained.data.validation.texts("files").empty());
  EXPECT_NE(problems(both, {"data.reader=lists", files}).find("data.validation.files: is missing"),
            std::string::npos);
}

// A key that both readers have was meant for the one that is replaced.
TEST_F(RecipeTest, KeysThatBothReadersHaveAreLeftOutToo) {
  Vocabulary words = vocabulary();
  words.readers["tables"] = {{"path", std::string(), "where", Option::Kind::path, true},
                             {"scale", std::int64_t{3}, "a whole number"}};
  const auto read = [&](const std::string& text, const std::vector<std::string>& overrides,
                        Files files = Files::must_exist) {
    return parse_recipe({text, "dir/mine.toml", folder_.path()}, overrides, words, files);
  };
  const std::string text = std::string(kGood) + "[data.validation]\npath = \"data\"\n";
  const std::string path = folder_.path("data");
  const Recipe replaced =
      read(text, {"data.reader=tables", "data.train.path=" + path}, Files::may_be_missing);
  EXPECT_EQ(replaced.data.train.text("path"), path);
  EXPECT_EQ(replaced.data.train.integer("scale"), 3);
  EXPECT_EQ(replaced.data.validation.text("path"), "");
  EXPECT_NE(test::message_of<UsageError>([&] {
              read(kGood, {"data.reader=tables"});
            }).find("data.train.path: is missing"),
            std::string::npos);
  // A table that is set as a whole is not the file's.
  EXPECT_EQ(read(kGood, {"data.reader=tables", "data.train={path=\"" + path + "\", scale=4}"})
                .data.train.integer("scale"),
            4);
}

TEST_F(RecipeTest, KeysOfTheSameReaderStay) {
  const Recipe same = parse(kGood, {"data.reader=files"});
  EXPECT_EQ(same.data.train.text("path"), folder_.path("data"));
  EXPECT_EQ(same.data.train.number("scale"), 2);
  EXPECT_NE(
      problems(std::string(kGood) + "[data.validation]\npaht = \"data\"\n", {"data.reader=files"})
          .find("data.validation.paht: there is no such key"),
      std::string::npos);
  // A recipe that leaves its reader to others has keys for it.
  std::string open(kGood);
  const std::string reader = "reader = \"files\"\n";
  open.erase(open.find(reader), reader.size());
  EXPECT_EQ(parse(open, {"data.reader=files"}).data.train.number("scale"), 2);
}

// Other tables of data are no reader's.
TEST_F(RecipeTest, TyposBesideAReaderThatIsReplacedAreSaid) {
  const std::string files = "data.train.files=[\"" + folder_.path("data") + "\"]";
  for (const std::string table : {"augment", "evaluate"}) {
    const std::string text = std::string(kGood) + "[data." + table + "]\ncorp = \"center\"\n";
    EXPECT_NE(problems(text, {"data.reader=lists", files})
                  .find("data." + table + ".corp: there is no such key; did you mean data." +
                        table + ".crop?"),
              std::string::npos);
  }
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

}  // namespace
}  // namespace convoy::train
