// Downpour SGD (Dean et al. 2012, section 4.1): what a recipe says of it. Torch-free.
//
// docs/downpour.md explains the strategy and every key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/optim/rule.h"
#include "convoy/server/job.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/recipe.h"
#include "convoy/train/server_job.h"

namespace convoy::train {

// This is the table [downpour].
struct DownpourRecipe : ServerJobRecipe {
  std::int64_t n_fetch = 1;           // mini-batches between two fetches
  std::int64_t n_push = 1;            // and between two pushes
  double local_lr = 0;                // 0: the optimizer's
  std::string local_steps = "again";  // or "drop"
  std::int64_t staleness_bound = -1;  // -1: none; 0: in rounds
  bool scale_by_staleness = false;
  std::int64_t portion = 0;  // samples; 0: see job_plan
  std::int64_t warm_steps = 0;
  double warm_seconds = 0;
  std::string push_wire = "float32";  // or "bfloat16", "float16"
  std::string fetch_wire = "float32";

  // Says whether replicas make every update together (synchronous SGD).
  bool rounds() const { return staleness_bound == 0; }
};

// Reads the keys of a recipe whose strategy this is.
DownpourRecipe downpour_of(const Recipe& recipe);

// Gives what the coordinator of such a job is to know. `from`: the checkpoint that the job goes on
// from, or null. Throws UsageError for a position that no parameter server's job can go on from.
//
// A replica leases `portion` samples at a time; unless the recipe says how many, so many that it
// asks every 16 mini-batches or so, a multiple of what one push is of. In rounds a mini-batch is a
// replica's share of training.batch, and a portion is one of these.
server::JobPlan job_plan(const Recipe& recipe, const Manifest* from = nullptr);

// Gives the rule for a parameter of this name and number of dimensions, by the group that it is in,
// with the group's rate at the beginning. REQUIRES: has_rule() of convoy/train/optimizer_rule.h.
// Throws UsageError for a rule that needs whole parameters.
optim::Rule parameter_rule(const OptimizerRecipe& recipe, const std::string& name,
                           std::int64_t dimensions);

}  // namespace convoy::train
