// convoy train for recipes with strategy "downpour" or "sandblaster": a job of several programs
// instead of ranks.
#pragma once

#include <string>
#include <vector>

#include "cli/training/ranks.h"
#include "convoy/train/recipe.h"

namespace convoy::cli {

struct DownpourArguments {
  std::string certificates;  // --certs
  std::string data;          // --server-data; empty: in the run folder
  bool dry_run = false;
};

void add_downpour_options(CLI::App& command, DownpourArguments& own);

// What `convoy train` was told besides.
struct TrainArguments {
  std::string recipe;  // its file
  std::vector<std::string> overrides;
  std::string resume;
  bool overwrite = false;
  RankOptions ranks;
};

// Returns the exit status. Throws UsageError for options that mean nothing there, and as
// run_downpour_job() does.
int train_downpour(train::Recipe recipe, const TrainArguments& arguments,
                   const DownpourArguments& own);

}  // namespace convoy::cli
