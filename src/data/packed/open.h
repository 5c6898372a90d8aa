// A tar and its index, open.
#pragma once

#include <cstdint>
#include <string>

#include "data/packed/index.h"
#include "data/readers/input_file.h"

namespace convoy::data {

// In bytes, of a record that is decoded: memory for one that is larger may not be had, and it is no
// picture, whatever its name says.
inline constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 30;

struct OpenPacked {
  // Throws UsageError naming the file that is missing or damaged.
  explicit OpenPacked(const std::string& path);
  // Throws UsageError when the index is of another tar, as far as its size and the bytes before its
  // first record tell; damage and records are found when they are read.
  void check_same_tar() const;

  InputFile tar;
  Index index;
};

}  // namespace convoy::data
