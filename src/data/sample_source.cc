#include "convoy/data/sample_source.h"

namespace convoy::data {

std::size_t Position::count() const {
  std::size_t total = 0;
  for (const Range& range : consumed) total += range.size();
  return total;
}

}  // namespace convoy::data
