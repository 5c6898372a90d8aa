// Where samples come from.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/data/loader.h"
#include "convoy/train/recipe.h"
#include "convoy/train/strategy.h"
#include "convoy/train/task.h"

namespace convoy::train {

// Whose samples, and how they are wanted.
struct SampleOptions {
  const Recipe& recipe;
  const Task& task;
  const Arrangement& arrangement;
  data::Layout layout = data::Layout::planar;
  std::size_t least_share = 1;
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> memory = {};  // for batches
};

// A loader from files or, with data.store = "memory", from a store over the ranks that read; what
// it reads is handed on as the arrangement says. Collective. Throws UsageError when the data can't
// be held in memory, and what Loader and Store throw.
std::unique_ptr<data::SampleSource> open_samples(const comm::World& world,
                                                 const std::shared_ptr<data::Dataset>& dataset,
                                                 const SampleOptions& options);

// Opens a source for one pass over data to evaluate on, in its own order. `on_skip` is told about
// each bad record that is left out, from any thread. Not collective.
std::unique_ptr<data::SampleSource> open_evaluation(
    const std::shared_ptr<const data::Dataset>& dataset, const SampleOptions& options,
    const std::function<void(const std::string& message)>& on_skip);

}  // namespace convoy::train
