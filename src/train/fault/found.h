// What ranks have found in a batch that was run once more, as one line.
#pragma once

#include <optional>

#include "convoy/comm/communicator.h"
#include "convoy/train/strategy.h"
#include "train/fault/origin.h"

namespace convoy::train {

// Gives every rank what came first on any of them, and on which: with batch normalization over all
// ranks, values that are not finite spread from one to the others. `own` is what this rank has
// found; `again` says whether loss or gradient was not finite the second time either, and `parts`
// whether shares are cut into micro-batches; both are the same on all ranks. Collective.
FoundFault found_fault(const comm::Communicator& ranks, const std::optional<FaultOrigin>& own,
                       bool again, bool parts);

}  // namespace convoy::train
