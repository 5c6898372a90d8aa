// What `convoy bench step` and its kind train: a recipe, and images for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::cli {

struct StepWords {
  std::string model = "resnet50";
  std::string strategy = "sync";
  std::string scheme;  // hybrid's; empty: its usual one
  std::int64_t senders = 0;
  std::int64_t passes = 0;
  std::int64_t partitions = 0;  // 0: with hybrid and partitioned all ranks
  bool variable_batch = false;
  std::int64_t batch_per_rank = 8;
  std::int64_t batch = 0;  // of all ranks; 0: batch_per_rank for each
  std::string precision = "float32";
  bool channels_last = true;
  std::string bucket_bytes;  // empty: the usual size
  bool compute_in_buckets = true;
  std::vector<std::string> overrides;  // KEY=VALUE, for any key of a recipe
};

// Adds the reader of made-up images.
void add_made_up_images(train::Registry& registry);

// For so many ranks; what overrides say is the last word, of the network and the batch as well.
// Throws UsageError for what makes no sense, and where the placement is left to the planner.
train::Recipe step_recipe(const StepWords& words, int ranks, const train::Registry& registry);
// What a rank has of its batch: the first ones have most.
std::int64_t images_of_rank(const train::Recipe& recipe, int rank, int ranks);
// A rank for itself with so many images a step, and so many threads.
train::Recipe independent_recipe(const StepWords& words, std::int64_t images, int threads,
                                 const train::Registry& registry);

}  // namespace convoy::cli
