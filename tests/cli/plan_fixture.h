// Plans of a small recipe, whose data is made on the spot. Runs of measure() are made up: their law
// and machine are known.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan/folder.h"
#include "cli/plan/planned.h"
#include "convoy/base/files.h"
#include "convoy/plan/machine.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline constexpr int kSamples = 400, kSide = 28, kClasses = 10;

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

// IDX files of pictures with a bar, whose place is the label.
inline void write_bars(const std::string& folder) {
  std::string images =
      big_endian(0x803) + big_endian(kSamples) + big_endian(kSide) + big_endian(kSide);
  std::string labels = big_endian(0x801) + big_endian(kSamples);
  for (int i = 0; i < kSamples; ++i) {
    const int label = i % kClasses;
    labels += static_cast<char>(label);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x)
        images += static_cast<char>(y / 2 == label + 1 ? 200 + (7 * i + x) % 50 : (i + x * y) % 40);
    }
  }
  test::spill(folder + "/images", images);
  test::spill(folder + "/labels", labels);
}

inline constexpr const char* kRecipe = R"(
name = "bars"
[model]
name = "lenet"
[data]
reader = "idx"
mean = [0.1]
deviation = [0.3]
[data.train]
images = "images"
labels = "labels"
[optimizer]
lr = 0.02
momentum = 0.9
[training]
batch = 40
epochs = 10
)";

inline plan::Machine machine_of(double delta) {
  plan::Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.knee_samples = 32;
  machine.source = "given";
  if (delta > 0) {
    machine.communication.kind = plan::CommunicationKind::ring;
    machine.communication.delta_s = delta;
    machine.communication.latency_s = 1e-4;
  }
  return machine;
}

class PlanFixture : public testing::Test {
 protected:
  void SetUp() override {
    write_bars(scratch_.path());
    test::spill(recipe_, kRecipe);
  }

  Planned planned(const std::string& targets = "1.5,0.5") const {
    return open_planned(RecipeWords{.path = recipe_, .overrides = {}},
                        GoalWords{.target = "", .targets = targets, .metric = "train_loss"});
  }

  // Runs of the law 60 + 2400/M to the first level, and twice that to the second.
  void measure(double delta = 0.02) const {
    const Planned plan = planned();
    PlanFolder folder(plan_, plan, false);
    for (const std::int64_t batch : {4, 8, 16, 32, 64, 128}) {
      for (const double rate : {0.02, 0.04}) {
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
          const double off = 1 + 0.04 * (static_cast<double>(seed) - 2) + (rate > 0.03 ? 0.5 : 0);
          const auto updates =
              static_cast<std::int64_t>((60 + 2400.0 / static_cast<double>(batch)) * off);
          plan::PointRun run;
          run.batch = batch, run.learning_rate = rate, run.seed = seed;
          run.updates = 2 * updates, run.seconds = 1;
          run.reached = {{1.5, updates}, {0.5, 2 * updates}};
          folder.add(run, {{updates, 1.5}, {2 * updates, 0.5}});
        }
      }
    }
    test::spill(plan_ + "/machine.toml", plan::to_toml(machine_of(delta)));
  }

  plan::PlanPoints points() const { return read_points(plan_); }

  Words words(const std::string& what, Words more) const {
    Words all{"plan", what, recipe_, "--folder", plan_, "--json", rows_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Rows of JSON that the command wrote.
  std::vector<Json> rows_of(const Words& words) const {
    const JobResult result = Job(words).finish();
    EXPECT_EQ(result.exit_status, 0) << result.out << result.err;
    return written();
  }
  std::vector<Json> written() const {
    std::istringstream lines(read_text_file(rows_));
    std::vector<Json> rows;
    std::string line;
    while (std::getline(lines, line)) rows.push_back(Json::parse(line));
    return rows;
  }
  std::string complaint(const Words& words) const {
    const JobResult result = Job(words).finish();
    EXPECT_EQ(result.exit_status, 2) << result.out << result.err;
    return result.err;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  const test::Scratch scratch_;
  const std::string recipe_ = scratch_.path("bars.toml");
  const std::string plan_ = scratch_.path("plan");
  const std::string rows_ = scratch_.path("rows.jsonl");
};

}  // namespace convoy::cli
