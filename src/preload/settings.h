// What the environment says about this library.
#pragma once

#include <cstdint>
#include <string>

#include "comm/collectives/allreduce/selection.h"

namespace convoy::preload {

// Rules behind the user's and in front of the built-in ones: between hosts, MPI's own allreduce
// does small calls at least as fast.
inline constexpr const char* kUsualRules = "shared; ..64KiB mpi";

struct Settings {
  comm::AllreduceSelection selection;  // CONVOY_ALLREDUCE, kUsualRules, the built-in rules
  bool check_calls = false;            // CONVOY_CHECK_CALLS
  bool verbose = false;                // CONVOY_MPI_VERBOSE
  // CONVOY_MPI_AFTER: what a communicator reduces before it gets an engine, whose making takes as
  // long as MPI needs for about so much.
  std::size_t after = std::size_t{8} << 20;
  std::string mistake;  // what is wrong with one of them; empty if nothing is

  static Settings from_environment();

  // Whether a call might be Convoy's, on so many hosts or others.
  bool might_take(std::size_t bytes, int ranks) const;
  // Gives the same number on ranks whose settings choose the same.
  std::uint64_t fingerprint() const;
};

}  // namespace convoy::preload
