// What a store's orders take.
#pragma once

#include <cstddef>

#include "convoy/data/sample_source.h"

namespace convoy::data {

// Throws UsageError when no store of `count` records can have come there.
void check_position(std::size_t count, const Position& position);

}  // namespace convoy::data
