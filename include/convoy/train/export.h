// The model of a checkpoint as one file for other programs. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace convoy::train {

struct Exported {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;  // of the file
};

// Writes parameters and buffers of a checkpoint, whole, under their names (torchvision's, in
// Convoy's models) into one safetensors file, whichever ranks wrote them. A tensor that has several
// names is there under each. The file's metadata has the model's name, `classes` (names, as JSON),
// and data.mean, data.deviation, data.size and data.channels of the recipe, as TOML. The file
// appears whole or not at all; memory for it is some 8 MiB, however large it is, and what is read
// is compared with its checksums. Throws UsageError as open_checkpoint does, and when the file is
// there already unless `overwrite`; Failure when it can't be written.
Exported export_model(const std::string& checkpoint, const std::string& file, bool overwrite);

}  // namespace convoy::train
