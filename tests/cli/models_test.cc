// convoy models.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

using nlohmann::json;

std::vector<json> rows_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "models");
  arguments.insert(arguments.end(), {"--json", "-"});
  const JobResult result = Job(arguments).finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  std::vector<json> rows;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

TEST(Models, ListsAllWithWhatIsPublished) {
  const auto rows = rows_of({});
  ASSERT_EQ(rows.size(), 26u);
  EXPECT_EQ(rows[0]["model"], "alexnet");
  EXPECT_EQ(rows[1]["model"], "alexnet-one-tower");
  EXPECT_EQ(rows[2]["model"], "alexnet32");
  EXPECT_EQ(rows[1]["parameters"], 61838248);
  EXPECT_EQ(rows[10]["model"], "local-image");
  EXPECT_EQ(rows[10]["parameters"], 81000896);
  EXPECT_EQ(rows[18]["model"], "speech-dnn");
  EXPECT_EQ(rows[18]["input"], (json{1, 11, 40}));
  const json& resnet50 = rows[17];
  EXPECT_EQ(resnet50["model"], "resnet50");
  EXPECT_EQ(resnet50["input"], (json{3, 224, 224}));
  EXPECT_EQ(resnet50["parameters"], 25557032);
  EXPECT_EQ(resnet50["macs"], 4089184256);
  EXPECT_EQ(resnet50["stages"], 18);
  EXPECT_EQ(rows[4]["model"], "googlenet-bn");
  EXPECT_EQ(rows[4]["gradient_bytes"], 4 * 19147888);
  EXPECT_EQ(rows[23]["model"], "vgg16_bn");
  EXPECT_EQ(rows[23]["parameters"], 138365992);
  EXPECT_EQ(rows[25]["model"], "vit_b_16");
  EXPECT_EQ(rows[25]["parameters"], 86567656);
  const JobResult table = Job({"models"}).finish();
  EXPECT_EQ(table.exit_status, 0);
  EXPECT_NE(table.out.find("25,557,032"), std::string::npos) << table.out;
}

TEST(Models, LayersAddUpToTheNetwork) {
  for (const char* model : {"alexnet", "resnet18"}) {
    const auto rows = rows_of({"--model", model, "--layers", "--size", "96", "--classes", "10"});
    ASSERT_EQ(rows.size(), 1 + rows[0]["layers"].get<std::size_t>());
    EXPECT_EQ(rows[0]["classes"], 10);
    EXPECT_EQ(rows[0]["input"], (json{3, 96, 96}));
    for (const char* key : {"parameters", "macs", "activation_bytes"}) {
      std::int64_t sum = 0;
      for (std::size_t i = 1; i < rows.size(); ++i) sum += rows[i][key].get<std::int64_t>();
      EXPECT_EQ(rows[0][key], sum) << model << " " << key;
      EXPECT_GT(sum, 0);
    }
  }
  const auto lenet = rows_of({"--model", "lenet", "--layers"});
  ASSERT_EQ(lenet.size(), 9u);
  EXPECT_EQ(lenet[1]["stage"], "conv1");
  EXPECT_EQ(lenet[1]["type"], "convolution");
  EXPECT_EQ(lenet[1]["output"], (json{20, 24, 24}));
  EXPECT_EQ(lenet[6]["layer"], "fc1");
  EXPECT_EQ(lenet[6]["inputs"], (json{"flatten"}));
  const JobResult table = Job({"models", "--model", "lenet", "--layers"}).finish();
  EXPECT_NE(table.out.find("convolution"), std::string::npos) << table.out;
}

// A network whose weights follow from the size of its images is another one for another size.
TEST(Models, OfOneShapeAreMadeForTheSize) {
  const auto rows = rows_of({"--model", "local-image", "--model", "speech-dnn", "--size", "101"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["input"], (json{3, 101, 101}));
  EXPECT_GT(rows[0]["parameters"], 81000896);
  EXPECT_EQ(rows[1]["parameters"], 41777152 + (101 * 101 - 440) * 2560);
}

// Every layer is run; how long it takes is nobody's to say.
TEST(Models, TimesEachLayer) {
  const auto rows =
      rows_of({"--model", "lenet", "--layers", "--time", "--batch", "2", "--repetitions", "1"});
  ASSERT_EQ(rows.size(), 9u);
  for (const json& row : rows) {
    EXPECT_GT(row["forward_s"].get<double>(), 0) << row;
    EXPECT_GT(row["backward_s"].get<double>(), 0) << row;
  }
  EXPECT_EQ(rows[0]["batch"], 2);
  EXPECT_GE(rows[0]["threads"].get<int>(), 1);
}

// A network of the user's, with the classes and the images of the data.
TEST(Models, OfARecipe) {
  const test::Scratch scratch;
  write_bars(scratch.path());
  test::spill(scratch.path("mine.toml"), kRecipe);
  const std::string recipe = scratch.path("mine.toml");
  const auto rows = rows_of({"--model", recipe, "--model", "lenet", "--layers"});
  ASSERT_EQ(rows.size(), 18u);
  for (const char* key : {"model", "input", "classes", "parameters", "macs"})
    EXPECT_EQ(rows[0][key], rows[9][key]) << key;
  EXPECT_NE(Job({"models", "--model", recipe, "--size", "32"}).finish().err.find("has data.size"),
            std::string::npos);
}

TEST(Models, SaysWhatItCantDescribe) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--model", "resnet5"}, "did you mean 'resnet50'?"},
      {{"--model", "alexnet", "--size", "62"},
       "model 'alexnet' can't take images of --size 62: stage 'conv5', layer 'features.12': its "
       "kernel is larger than its input, [256, 2, 2]"},
      {{"--model", "local-image", "--size", "30"},
       "model 'local-image' can't take images of --size 30: stage 'local2', layer 'pool2': its "
       "kernel is larger than its input, [8, 5, 5]"},
      {{"--size", "0"}, "--size: '0' is not a whole number"},
      {{"--json", "/nowhere/at/all"}, "--json: can't write '/nowhere/at/all'"}};
  for (auto [arguments, part] : cases) {
    arguments.insert(arguments.begin(), "models");
    const JobResult result = Job(arguments).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
  }
}

}  // namespace
}  // namespace convoy::cli
