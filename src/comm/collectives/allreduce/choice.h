// An algorithm of allreduce with its parameters.
#pragma once

#include <cstdint>

#include "comm/collectives/pipeline.h"

namespace convoy::comm {

enum class AllreduceAlgorithm : std::uint8_t {
  naive,
  recursive_doubling,
  ring,
  ring_rsag,
  multicolor
};

struct AllreduceChoice {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::ring_rsag;
  // Of multicolor: how many, or one of the two below.
  int colors = kChosenColors;
  Pipeline pipeline = {};

  static constexpr int kChosenColors = 0;   // choose_colors(ranks)
  static constexpr int kColorPerRank = -1;  // a direct reduce-scatter and allgather

  // The colors among so many ranks; 0 for other algorithms.
  int colors_among(int ranks) const;
  bool operator==(const AllreduceChoice&) const = default;
};

}  // namespace convoy::comm
