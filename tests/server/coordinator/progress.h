// What a client says of its portion in a push.
#pragma once

#include <cstdint>

#include "server/coordinator/ledger.h"

namespace convoy::server::coordinator::test {

inline Progress so_far(const Portion& portion, std::uint64_t samples) {
  return portion.number << 32 | samples;
}

}  // namespace convoy::server::coordinator::test
