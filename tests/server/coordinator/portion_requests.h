// What a replica asks a coordinator of a batch optimization.
#pragma once

#include <cstdint>
#include <vector>

#include "server/service/portion_calls.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator::test {

inline calls::PortionAnswer ask_for_portions(World& world, const calls::PortionRequest& request) {
  return calls::decode_portion_answer(world.call(calls::kPortions, calls::encode(request)));
}

// It has computed this group, with such a loss of each portion.
inline calls::PortionRequest finished_group(std::uint64_t client, const EvaluationId& id,
                                            const PortionGroup& group, double loss = 1) {
  return {client, id, {}, {{group, std::vector<double>(portions_of(group), loss)}}, false};
}

}  // namespace convoy::server::coordinator::test
