// What the environment says about this library.
#pragma once

#include <cstdint>
#include <string>

#include "comm/collectives/allreduce/selection.h"

namespace convoy::preload {

// Rules behind the user's and in front of the built-in ones: the calls that MPI's own allreduce
// does at least as fast between hosts.
inline constexpr const char* kLeftToMpi = "..64KiB mpi";

struct Settings {
  comm::AllreduceSelection selection;  // CONVOY_ALLREDUCE, kLeftToMpi, the built-in rules
  bool check_calls = false;            // CONVOY_CHECK_CALLS
  bool verbose = false;                // CONVOY_MPI_VERBOSE
  std::string mistake;                 // what is wrong with CONVOY_ALLREDUCE; empty if nothing is

  static Settings from_environment();

  // Whether a call might be Convoy's, on so many hosts or others.
  bool might_take(std::size_t bytes, int ranks) const;
  // The same number on ranks whose settings choose the same.
  std::uint64_t fingerprint() const;
};

}  // namespace convoy::preload
