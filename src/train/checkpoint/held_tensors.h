// What a rank holds of a checkpoint, as slices in memory.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "convoy/train/state.h"
#include "train/checkpoint/plan.h"

namespace convoy::train {

struct HeldTensors {
  std::vector<HeldSlice> slices;
  std::vector<torch::Tensor> tensors;  // of each slice, wherever they live
};

// Throws UsageError naming the tensor when it has not the size of its part, or a type that files
// can't hold.
HeldTensors hold(const State& state);

// Copies a piece of a held slice, in C order. REQUIRES: it lies in the slice; `out` is aligned for
// its elements.
void copy_piece(const HeldTensors& held, std::size_t which, const Slice& piece, std::byte* out);

}  // namespace convoy::train
