// Recipes of a small vocabulary.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/train/placement.h"
#include "convoy/train/recipe.h"
#include "tests/base/scratch.h"

namespace convoy::train {

inline Vocabulary vocabulary() {
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

inline constexpr const char* kGood = R"(
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

}  // namespace convoy::train
