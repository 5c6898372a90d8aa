// plan.toml: what `convoy plan batch` says, for `convoy train --plan`.
//
//   recipe = "lenet-mnist"
//   metric = "loss"
//   target = 0.1
//
//   [[workers]]
//   count = 2
//   batch = 128
//   learning_rate = 0.04
//   seconds = 12.5        # to the target, predicted
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::cli {

struct PlanFile {
  struct Workers {
    std::int64_t count = 0;
    std::int64_t batch = 0;
    double learning_rate = 0;
    double seconds = 0;
  };
  std::string recipe;  // its name
  std::string metric;
  double target = 0;
  std::vector<Workers> workers;
};

std::string to_toml(const PlanFile& plan);

// Throws UsageError naming the file, and the line where there is one, for what is no such plan.
PlanFile read_plan_file(const std::string& path);

// What the plan says for so many workers. Throws UsageError naming those that it has.
const PlanFile::Workers& workers_of(const PlanFile& plan, std::int64_t count);

// That as overrides of a recipe: training.batch and optimizer.lr.
std::vector<std::string> overrides_of(const PlanFile::Workers& workers);

}  // namespace convoy::cli
