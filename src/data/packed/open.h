// A tar and its index, open.
#pragma once

#include <string>

#include "data/packed/index.h"
#include "data/readers/input_file.h"

namespace convoy::data {

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
