// The IDX format, from bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/readers/memory_dataset.h"

namespace convoy::data {

struct IdxArray {
  std::vector<std::size_t> sizes;
  std::vector<std::byte> bytes;  // the elements: product of sizes
};

// Reads an IDX file of unsigned bytes, compressed or not. Throws UsageError naming the file.
IdxArray parse_idx(std::span<const std::byte> file, const std::string& name);

// Puts the two together. Throws UsageError when they don't fit.
Examples idx_examples(IdxArray images, const std::string& images_name, const IdxArray& labels,
                      const std::string& labels_name);

}  // namespace convoy::data
