// Keys of an optimizer or a schedule in a recipe that a test puts together.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "convoy/train/options.h"

namespace convoy::train {

inline Options own_keys(std::initializer_list<std::pair<const char*, Value>> values) {
  std::vector<Option> all;
  for (const auto& [key, value] : values) all.push_back({key, value, ""});
  return Options(all);
}

}  // namespace convoy::train
