// Allreduces on simulated ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "comm/collectives/allreduce/choice.h"
#include "network.h"

namespace convoy::simulate {

struct Candidate {
  enum class Kind { mpi, automatic, algorithm };
  Kind kind = Kind::mpi;
  std::string name;
  comm::AllreduceChoice choice = {};  // of Kind::algorithm
};

struct Plan {
  std::vector<std::size_t> counts;  // of floats
  std::vector<Candidate> candidates;
  double sums_per_second = 0;  // bytes; 0: additions take no time
};

struct Result {
  const Candidate* candidate = nullptr;
  comm::AllreduceChoice choice = {};  // what it came to; not of Kind::mpi
  std::size_t bytes = 0;
  double seconds = 0;    // simulated, from all ranks' start to the last one's end
  bool checked = false;  // the sums were done and are right
};

// Sums of buffers up to this size, of all ranks together, are done and checked.
inline constexpr std::size_t kMostReal = std::size_t{256} << 20;

// One candidate after the other, for each size, each on an idle network; every result is reported
// as soon as it is there. Throws Failure if a sum is wrong. Once per process, after s4u::Engine was
// made.
void simulate(const Network& network, const Plan& plan,
              const std::function<void(const Result&)>& report);

}  // namespace convoy::simulate
