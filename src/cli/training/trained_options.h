// The options of commands that use what was trained.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/training/set_option.h"
#include "convoy/train/trained.h"

namespace convoy::cli {

struct TrainedOptions {
  std::string run;
  bool best = false;
  std::vector<std::string> overrides;
  std::string json;
};

// Adds RUN, --best, --set and --json; `json_help` says what the last one writes.
void add_trained_options(CLI::App& command, TrainedOptions& options, const std::string& json_help);

// Throws UsageError as train::find_trained does.
train::TrainedSource find_trained(train::Registry& registry, const TrainedOptions& options);

// To be called before data of what was trained is opened. Throws UsageError where `data`, the
// recipe's table of that name ("data.validation"), lacks what the reader requires: a recipe whose
// reader is replaced has to name anew only the data that is used.
void check_is_named(const train::DataRecipe& recipe, const std::string& table,
                    const train::Options& data);

}  // namespace convoy::cli
