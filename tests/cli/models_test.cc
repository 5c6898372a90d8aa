// convoy models.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"
#include "tests/cli/plan_fixture.h"
#include "tests/golden/read.h"

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

// Parameters of networks that torchvision has, by its own count (tests/golden/make_models.py), and
// of the others: by the papers, or by hand from what their headers say of their layers.
std::map<std::string, std::int64_t> known_parameters() {
  std::map<std::string, std::int64_t> known{{"alexnet-one-tower", 61838248},
                                            {"alexnet32", 777930},
                                            {"googlenet-bn", 19147888},
                                            {"lenet", 431080},
                                            {"lenet170k", 169506},
                                            {"lenet43k", 43158},
                                            {"lenet487k", 487458},
                                            {"lenet672k", 671802},
                                            {"local-image", 81000896},
                                            {"mlp", 669706},
                                            {"resnet20", 270410},
                                            {"speech-dnn", 41777152},
                                            {"vgg1125k", 1125090},
                                            {"vgg1863k", 1862754}};
  const json published = golden::read("torchvision_shapes.json");
  for (const auto& [name, network] : published.at("models").items())
    known[name] = network.at("parameters").get<std::int64_t>();
  return known;
}

TEST(Models, ListsAllWithWhatIsPublished) {
  const auto rows = rows_of({});
  std::map<std::string, json> networks;
  for (const json& row : rows) {
    EXPECT_EQ(row["kind"], "model");
    EXPECT_EQ(row["gradient_bytes"], 4 * row["parameters"].get<std::int64_t>()) << row;
    EXPECT_GT(row["macs"], 0) << row;
    EXPECT_GT(row["activation_bytes"], 0) << row;
    EXPECT_LE(row["stages"], row["layers"]) << row;
    networks[row["model"]] = row;
  }
  EXPECT_EQ(networks.size(), rows.size()) << "one row for each";
  std::map<std::string, std::int64_t> parameters;
  for (const auto& [name, row] : networks) parameters[name] = row["parameters"].get<std::int64_t>();
  EXPECT_EQ(parameters, known_parameters());
  const auto expect = [&](const std::string& name, const json& input, std::int64_t classes,
                          std::int64_t stages) {
    const json& row = networks.at(name);
    EXPECT_EQ(row["input"], input) << name;
    EXPECT_EQ(row["classes"], classes) << name;
    EXPECT_EQ(row["stages"], stages) << name;
  };
  expect("googlenet", {3, 224, 224}, 1000, 13);
  expect("googlenet-bn", {3, 224, 224}, 1000, 15);
  expect("mobilenet_v2", {3, 224, 224}, 1000, 19);
  expect("resnet50", {3, 224, 224}, 1000, 18);
  expect("speech-dnn", {1, 11, 40}, 8192, 5);
  expect("vgg16_bn", {3, 224, 224}, 1000, 8);
  expect("vit_b_16", {3, 224, 224}, 1000, 1);
  EXPECT_EQ(networks.at("resnet50")["macs"], 4089184256);
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
