// When measuring has to be over.
#pragma once

#include <optional>

#include "convoy/base/clock.h"

namespace convoy::cli {

// Nothing: never.
using Deadline = std::optional<Clock::time_point>;

inline bool is_late(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

}  // namespace convoy::cli
