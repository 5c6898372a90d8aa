// What opening a checkpoint consists of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convoy/train/checkpoint_folder.h"

namespace convoy::train {

// Throws as manifest_from_json does, and UsageError when the file can't be read.
Manifest read_manifest(const std::string& checkpoint);

// The checkpoint that checkpoint_in() names, opened. A run that goes on may remove one between the
// two, and then has another. Throws as these do.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
FoundCheckpoint open_checkpoint_in(const std::string& path, Which which);

// Throws UsageError naming the first of the manifest's files that is not there, or not as large or
// not as begun as it should be.
void check_files(const std::string& checkpoint, const Manifest& manifest);

// The tensors of a checkpoint of format 1, whose manifest doesn't name them: found in
// model.safetensors, optimizer.safetensors and ranks.safetensors, where `files` have those. Throws
// UsageError.
std::vector<StoredTensor> tensors_of_format_1(const std::string& checkpoint,
                                              const std::map<std::string, FileEntry>& files);

// The newest checkpoint of those before `step` that is whole, or empty. Reads all of it; nobody
// waits for that any more once `given_up` is true, and the answer is empty then.
std::string newest_usable(const CheckpointFolder& folder, std::int64_t step,
                          const std::function<bool()>& given_up = {});

}  // namespace convoy::train
