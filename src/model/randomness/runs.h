// A part of a tensor as runs of elements that lie one after the other in the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/base/slice.h"

namespace convoy::model {

// Calls use(place of the first, how many) for each, in C order; places are those in the whole.
template <class Use>
void for_each_run(const Slice& part, Use&& use) {
  if (part.elements() == 0) return;
  // Dimensions at the end that are whole make longer runs.
  std::size_t outer = part.shape.size();
  std::int64_t run = 1, below = 1;
  while (outer > 0) {
    --outer;
    run = part.size[outer] * below;
    below *= part.shape[outer];
    if (part.size[outer] != part.shape[outer]) break;
  }
  std::vector<std::int64_t> at(part.begin);
  while (true) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < part.shape.size(); ++d) place = place * part.shape[d] + at[d];
    use(place, run);
    std::size_t d = outer;
    for (; d > 0; --d) {
      if (++at[d - 1] < part.begin[d - 1] + part.size[d - 1]) break;
      at[d - 1] = part.begin[d - 1];
    }
    if (d == 0) return;
  }
}

}  // namespace convoy::model
