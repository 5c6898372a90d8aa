// An algorithm of allreduce with its parameters.
#pragma once

#include <cstdint>

#include "comm/collectives/pipeline.h"

namespace convoy::comm {

// What each needs and has is in allreduce_table().
enum class AllreduceAlgorithm : std::uint8_t {
  naive,
  recursive_doubling,
  ring,
  ring_rsag,
  multicolor,
  shared,        // ranks of one host, through memory that they share
  hierarchical,  // shared inside each host, multicolor between hosts
  mpi            // the MPI library's own
};

// Which algorithms a group can use beside those that need messages only.
struct Abilities {
  bool shared = false;        // all ranks on one host, sharing memory
  bool hierarchical = false;  // the same number of ranks on each host, sharing memory there
  bool own_mpi = false;       // they are all ranks of a world that MPI connects

  bool allow(AllreduceAlgorithm algorithm) const;
};

struct AllreduceChoice {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::ring_rsag;
  // Says how many colors multicolor and hierarchical have; or is one of the two constants below.
  int colors = kChosenColors;
  Pipeline pipeline = {};

  static constexpr int kChosenColors = 0;   // choose_colors(ranks)
  static constexpr int kColorPerRank = -1;  // a direct reduce-scatter and allgather

  // The colors among so many ranks (hosts, for hierarchical); 0 for other algorithms.
  int colors_among(int ranks) const;
  bool operator==(const AllreduceChoice&) const = default;
};

}  // namespace convoy::comm
