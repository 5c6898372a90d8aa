// Fully connected layers alone.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct MlpOptions {
  Shape image{1, 28, 28};                      // of a sample, which is flattened
  std::vector<std::int64_t> hidden{512, 512};  // units, by layer; empty: a linear classifier
  std::int64_t classes = 10;
};

// Gives layers fc1, fc2, ..., the last of which gives the scores; ReLU follows each of the others.
// First weights: LibTorch's default. Stages: each of the layers. UsageError for a shape without
// elements, and for a layer without units.
Blueprint mlp(const MlpOptions& options = {});

}  // namespace convoy::model
