// Examples of one shape that are held in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"

namespace convoy::data {

struct Examples {
  // One file's examples in `bytes`, for messages.
  struct Part {
    std::string name;
    std::size_t count = 0;
  };
  std::vector<Part> parts;
  std::vector<std::byte> bytes;  // planar, one after another
  Shape shape;
  std::vector<std::uint8_t> labels;
  std::vector<std::string> classes;  // names all labels
};

std::shared_ptr<Dataset> make_memory_dataset(Examples examples);

// "0", "1", ...
std::vector<std::string> digit_names(std::size_t count);

}  // namespace convoy::data
