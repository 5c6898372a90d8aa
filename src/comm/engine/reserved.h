// The matches of Convoy's own operations: on a channel above the caller's.
#pragma once

#include "convoy/comm/types.h"

namespace convoy::comm::reserved {

constexpr Match kClosing{Match::kChannels, 0};
constexpr Match kSplit{Match::kChannels, 1};
constexpr Match kSetUp{Match::kChannels, 2};
constexpr Match kAllocate{Match::kChannels, 3};
// The channel above this one belongs to Transport::make_progress().
static_assert(Match::kChannels == 62);

}  // namespace convoy::comm::reserved
