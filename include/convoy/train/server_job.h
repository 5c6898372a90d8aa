// Jobs of several programs around a parameter server: what the strategies "downpour"
// (docs/downpour.md) and "sandblaster" (docs/sandblaster.md) have in common. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/server/job.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

inline constexpr const char* kDownpour = "downpour";
inline constexpr const char* kSandblaster = "sandblaster";

// These keys are in the tables of both.
struct ServerJobRecipe {
  std::int64_t replicas = 2;
  std::int64_t shards = 1;
  std::int64_t servers = 0;  // 0: as many as are needed
  bool backups = true;
  std::string durability = "replicated";  // or "synced", "none"
  double lease_s = 3;
  std::vector<std::string> hosts;
  std::vector<std::string> etcd;
  std::int64_t restarts = 3;
};

// Says whether a recipe of this strategy is such a job.
bool is_server_job(const std::string& strategy);

// Reads the keys of a recipe that is one.
ServerJobRecipe server_job_of(const Recipe& recipe);

// Gives the recipe of what one replica does by itself: with the strategy that its ranks work
// together with, sync where one rank has the whole model, else partitioned.
Recipe replica_recipe(const Recipe& recipe);

// Gives what the coordinator of such a job is to know: job_plan() of its strategy.
server::JobPlan server_job_plan(const Recipe& recipe, const Manifest* from = nullptr);

// This is a recipe read from its file, with the plugins that it names, and the plan of its job,
// which goes on from the checkpoint `resume` unless that is empty ("latest": the newest of its run
// folder). Throws UsageError for a recipe of another strategy. Defined where Torch is.
struct ServerJob {
  Recipe recipe;
  server::JobPlan plan;
  std::string resume;  // the checkpoint's path
};
ServerJob read_server_job(const std::string& recipe_file, const std::vector<std::string>& overrides,
                          const std::string& resume);

}  // namespace convoy::train
