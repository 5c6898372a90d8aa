// A comparison of `convoy bench downpour` that trains nothing, and runs that are made up.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/downpour/folder.h"
#include "cli/bench/downpour/table.h"
#include "convoy/base/error.h"
#include "convoy/train/downpour.h"
#include "tests/base/scratch.h"
#include "tests/train/report_rows.h"
#include "train/strategies/downpour/options.h"

namespace convoy::cli {

using Words = std::vector<std::string>;

inline train::Vocabulary vocabulary() {
  train::Vocabulary v;
  v.models["net"] = {};
  v.readers["reader"] = {{"size", std::int64_t{60}, "doc"}};
  v.tasks["classification"] = {};
  v.strategies["sync"] = {{"bucket", std::string("8MiB"), "doc"}};
  v.strategies["partitioned"] = {{"images", std::string("rows"), "doc"}};
  v.strategies["downpour"] = train::downpour_keys();
  v.strategy_checks["downpour"] = train::check_downpour;
  return v;
}

inline constexpr const char* kRecipe = R"(
strategy = "downpour"
[model]
name = "net"
[data]
reader = "reader"
[data.train]
[data.validation]
[optimizer]
name = "adagrad"
lr = 0.01
weight_decay = 1e-4
initial_accumulator = 0.1
[training]
batch = 32
epochs = 3
[downpour]
replicas = 4
shards = 2
warm_steps = 50
)";

class ComparisonTest : public train::ReportTest {
 protected:
  ComparisonTest() {
    words_.rates = "sgd=0.05,fixed=0.03,sync=0.05";
    words_.folder = scratch_.path("all");
  }
  Comparison make(const std::string& recipe = kRecipe) const {
    return make_comparison({recipe, "mine.toml", "/"}, words_, vocabulary());
  }
  std::string problem(const std::string& recipe = kRecipe) const {
    try {
      make(recipe);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  static Words names(const Comparison& comparison) {
    Words all;
    for (const Arm& arm : comparison.arms) all.push_back(arm.name);
    return all;
  }
  static Words names(const std::vector<const Arm*>& arms) {
    Words all;
    for (const Arm* arm : arms) all.push_back(arm->name);
    return all;
  }
  // What a run leaves: an evaluation every 10 updates, the best one at the end.
  void leave(const Comparison& comparison, ComparisonFolder& folder, const Arm& arm,
             double best = 0.98, double seconds = 0.1, const std::string& state = "done") const {
    const std::string path = comparison.folder + "/" + arm.name;
    std::filesystem::create_directories(path);
    std::string metrics = run_of_both();
    for (int step = 10; step <= 100; step += 10) {
      std::string row = train::step_row(step, 2.0 / step, seconds);
      if (is_downpour(arm.method)) {
        row = train::replaced(row, "\"epoch\"",
                              "\"staleness_mean\": 1.25, \"used_twice\": 3, \"pushed_bytes\": "
                              "20000, \"fetched_bytes\": 40000, \"epoch\"");
      }
      metrics += row + evaluation_of_both(step, best - (100 - step) / 1000.0, seconds);
    }
    test::spill(path + "/metrics.jsonl", metrics + train::end_row(100, "done"));
    test::spill(path + "/recipe.toml", train::print_recipe(arm.recipe, true));
    test::spill(folder.file("recipes/" + arm.name + ".toml"),
                train::print_recipe(arm.recipe, false));
    folder.put(row_of(arm, RunEnd{state, "", 12.0, 18.0, ""}));
  }
  // Evaluated on training data as well, where the network is better by 0.01.
  static std::string run_of_both() {
    std::string row = train::run_row_on(1, 2);
    row = train::replaced(row, R"(["top1", "loss"])", R"(["top1", "loss", "train_top1"])");
    row = train::replaced(row, R"(["top-1", "loss"])",
                          R"(["top-1", "loss", "top-1 of training data"])");
    for (const std::string key : {"\"metric_higher_is_better\": ", "\"metric_percent\": "})
      row = train::replaced(row, key + "[1, 0]", key + "[1, 0, 1]");
    return row;
  }
  static std::string evaluation_of_both(int step, double top1, double seconds) {
    return train::replaced(train::evaluation_row(step, top1, seconds), "\"loss\": 0.5",
                           "\"loss\": 0.5, \"train_top1\": " + std::to_string(top1 + 0.01));
  }
  ComparedRuns compared(const Comparison& comparison, ComparisonFolder& folder) const {
    ComparedRuns runs;
    runs.level = words_.level;
    for (const Arm& arm : comparison.arms) {
      ComparedRun run{&arm, train::read_run(comparison.folder + "/" + arm.name), {}};
      run.row = row_of(arm, run.record, end_of(*folder.row(arm.name)), runs.level, 2);
      runs.runs.push_back(std::move(run));
    }
    return runs;
  }

  ComparisonWords words_;
};

}  // namespace convoy::cli
