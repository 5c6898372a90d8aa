// Who writes what of a checkpoint. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/safetensors.h"

namespace convoy::train {

// A slice that a rank has in memory. Those that several ranks have, with the same bounds, are
// replicas: equal. What is of group rank has no replicas, whatever its name.
struct HeldSlice {
  TensorGroup group = TensorGroup::model;
  std::string type;
  Slice slice;
};

// These are for messages between ranks.
std::string to_text(const std::vector<HeldSlice>& held);
std::vector<HeldSlice> held_from_text(std::string_view text);

// A part of a held slice that its rank writes.
struct PlannedSlice {
  std::size_t held = 0;    // which one
  std::size_t tensor = 0;  // of the plan
  std::size_t stored = 0;  // slice of that tensor
};

// What one rank writes; nothing: no file.
struct PlannedPart {
  std::vector<PlannedSlice> slices;  // as they lie in the file
  SafetensorsLayout layout;
  std::vector<std::uint64_t> bytes;  // of each slice
};

struct Plan {
  std::vector<StoredTensor> tensors;  // without checksums
  std::vector<PlannedPart> parts;     // by rank
};

std::string part_name(int rank);

// Divides what the ranks hold: each slice is written once, and those with replicas are dealt out so
// that holders of the same write about as many bytes; large ones are cut for that. `distinct` are
// the different things that ranks hold, `of_rank` says for each rank which. Depends on nothing
// else. Throws UsageError naming the tensor when slices don't hold every element of theirs once, or
// ranks have other types or shapes for one.
Plan plan_checkpoint(const std::vector<std::vector<HeldSlice>>& distinct,
                     const std::vector<std::size_t>& of_rank);

}  // namespace convoy::train
