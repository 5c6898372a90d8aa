// What a batch optimizer's algebra on shards costs beside the memory that it moves.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/server/measure.h"
#include "convoy/server/batch.h"

namespace convoy::cli {

// One operation on vectors of so many bytes.
struct VectorFigures {
  std::string operation;      // "memory", "axpy", "scale", "dot", "dots"
  double moved = 0;           // bytes that it reads and writes
  std::vector<double> times;  // seconds, of each repetition
};

// Starts a job (coordinator and servers, as processes of their own), measures by turns, and ends
// them. "memory" is axpy in this process, by as many threads as a shard has for it: what the others
// are compared with. REQUIRES: one thread.
std::vector<VectorFigures> measure_vectors(const ServerBench& bench, server::Element element);

}  // namespace convoy::cli
