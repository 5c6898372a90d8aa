// Sandblaster (Dean et al. 2012, section 4.2): what a recipe says of it. Torch-free.
//
// docs/sandblaster.md explains the strategy and every key.
#pragma once

#include <cstdint>
#include <string>

#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"
#include "convoy/server/job.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/recipe.h"
#include "convoy/train/server_job.h"

namespace convoy::train {

// This is the table [sandblaster].
struct SandblasterRecipe : ServerJobRecipe {
  std::string method = "lbfgs";  // or "conjugate_gradient", "gradient_descent"
  std::int64_t history = 10;
  std::int64_t portion = 0;         // samples; 0: training.batch
  std::int64_t largest_group = 16;  // portions: 1, 2, 4, ..., 256
  bool copies = true;               // of portions that are late
  double l2 = 0;
  double damping = 0;
  double decrease = 1e-4;
  double curvature = 0.9;
  std::int64_t search_evaluations = 20;
  double loss_error = 0;        // 0: by the precision
  double gradient_norm = 1e-5;  // at which training ends
  double progress = 0;          // or where losses fall by no more than this part of them
  std::int64_t patience = 3;    // in so many iterations
};

// Reads the keys of a recipe whose strategy this is.
SandblasterRecipe sandblaster_of(const Recipe& recipe);

// Gives the method that the coordinator runs.
optim::BatchOptions batch_options(const Recipe& recipe);
// Gives how many iterations it makes at most: training.steps, or training.epochs.
std::int64_t batch_iterations(const Recipe& recipe);
// Gives the samples of a portion; the last one may have fewer.
std::uint64_t portion_samples(const Recipe& recipe);
// Gives 0, 1, 2, ... for groups of 1, 2, 4, ... portions at most.
std::uint8_t largest_group_level(const Recipe& recipe);
// Gives the type of all vectors.
server::Element batch_element(const Recipe& recipe);

// Gives what the coordinator of such a job is to know. `from`: the checkpoint that the job goes on
// from, or null.
server::JobPlan batch_plan(const Recipe& recipe, const Manifest* from = nullptr);

// Says what vectors take on the servers, and sums of portions that aren't complete, in bytes.
struct BatchBytes {
  std::uint64_t vector = 0;    // one of them, on all shards together
  std::uint64_t vectors = 0;   // of the method, and of those that it has freed: so many at once
  std::uint64_t held = 0;      // beside them, of an earlier state, while an evaluator fetches it
  std::uint64_t sums = 0;      // at once, at most
  std::uint64_t messages = 0;  // that bring them, and sealed gradients, likewise
  std::uint64_t copies = 1;    // of everything so far: 2 with backups
  std::uint64_t servers = 1;
  std::uint64_t process = 0;  // what each server has beside them
  std::uint64_t all() const {
    return vector * (vectors + held + sums + messages) * copies + servers * process;
  }
};
BatchBytes batch_bytes(const Recipe& recipe, std::uint64_t elements, std::uint64_t samples);
// "servers need up to 1.2 GiB (614 MiB each): 32 vectors of ...".
std::string describe(const BatchBytes& bytes, const Recipe& recipe, std::uint64_t elements);

}  // namespace convoy::train
