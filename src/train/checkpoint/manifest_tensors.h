// The part of a manifest that says where tensors are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/train/checkpoint_folder.h"
#include "train/checkpoint/manifest_members.h"

namespace convoy::train {

// A list with one tensor a line.
std::string tensors_to_json(const std::vector<StoredTensor>& tensors);

// Throws UsageError naming the manifest and the tensor, unless its slices are in `files`, behind
// what is hashed there or with it, and hold every element once.
std::vector<StoredTensor> tensors_from(const Members& members,
                                       const std::map<std::string, FileEntry>& files);

}  // namespace convoy::train
