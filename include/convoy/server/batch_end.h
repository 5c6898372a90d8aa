// How a batch optimization ends that has come to no end.
#pragma once

#include <string_view>

namespace convoy::server {

// Why a job is over begins so where its method has met with what no repetition mends, such as a
// vector that a shard has lost. What that is stands behind it.
inline constexpr std::string_view kCannotGoOn = "the optimization can't go on: ";

}  // namespace convoy::server
