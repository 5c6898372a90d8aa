// plan.toml: what `convoy plan batch` says, for `convoy train --plan`.
//
//   version = 2           # files of before, which are of version 1, say nothing
//   recipe = "lenet-mnist"
//   metric = "loss"
//   target = 0.1
//
//   [[workers]]
//   count = 2
//   batch = 128
//   learning_rate = 0.04
//   seconds = 12.5        # to the target, predicted
//   contention = 0.05     # by how much longer its workers compute than one alone, as a part of
//                         # that; missing where nothing tells it, and in files of before: 0
//
//   [measured]            # what the answers hold for; not in files of before
//   machine = "AMD EPYC 7B13, 4 cores"
//   threads = 1                            # of each worker; missing where a machine was described
//   samples = 60000                        # of training data; missing where batches count costs
//   overrides = ["optimizer.name=adam"]    # --set
//   recipe = ["strategy = \"sync\"", ...]  # compared_part(), by lines
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::cli {

struct PlanFile {
  struct Workers {
    std::int64_t count = 0;
    std::int64_t batch = 0;
    double learning_rate = 0;
    double seconds = 0;
    double contention = 0;  // by which part longer they compute than one worker alone
  };
  struct MeasuredWith {
    std::string machine;       // empty: nothing says
    std::int64_t threads = 0;  // of each worker; 0: the machine was described
    std::int64_t samples = 0;  // of training data; 0: batches do not count samples
    std::vector<std::string> overrides;
    std::string recipe;  // compared_part()
  };
  std::string recipe;  // its name
  std::string metric;
  double target = 0;
  std::vector<Workers> workers;
  std::optional<MeasuredWith> measured = {};
};

std::string to_toml(const PlanFile& plan);

// Throws UsageError naming the file, and the line where there is one, for what is no such plan, or
// one of a later version.
PlanFile read_plan_file(const std::string& path);

// What the plan says for so many workers. Throws UsageError naming those that it has.
const PlanFile::Workers& workers_of(const PlanFile& plan, std::int64_t count);

// Gives the plan for so many workers as overrides of a recipe: training.batch and optimizer.lr.
std::vector<std::string> overrides_of(const PlanFile::Workers& workers);

// The command that trains as the plan says, with the overrides and threads that it was measured
// with, on `hosts` (as --hosts takes them; empty: here).
std::string training_command(const PlanFile& plan, std::int64_t workers, const std::string& recipe,
                             const std::string& plan_file, const std::string& hosts);

}  // namespace convoy::cli
