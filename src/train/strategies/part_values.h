// First values of parts of layers.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "convoy/base/slice.h"
#include "convoy/model/layers.h"

namespace convoy::train {

// Fills `to` with the values that `part` has in the whole layer: those of (seed, name, element), or
// the user's module's own. `to` has the shape of the part, float32 or what the user's module has,
// and no holes.
void fill_part(const model::Node& whole, const model::TensorInfo& info, const Slice& part,
               std::uint64_t seed, torch::Tensor to);

}  // namespace convoy::train
