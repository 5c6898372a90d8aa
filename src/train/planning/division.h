// How a network can be divided: into parts that all ranks have, and layers of which each has units.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convoy/model/stage.h"
#include "convoy/train/planning.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {

// Whether hybrid can divide the network among so many; what one of them has. Nothing where it
// can't.
std::shared_ptr<SplitNetwork> try_to_split(const PlacementProblem& problem, int partitions);

}  // namespace convoy::train
