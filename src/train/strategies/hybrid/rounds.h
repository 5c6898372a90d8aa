// Which samples of a group the partitioned layers see together. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/data/epoch_order.h"

namespace convoy::train {

// One forward and backward pass of the partitioned layers.
struct Round {
  // These are the samples of each rank of the group that take part: one after the other, by rank.
  std::vector<data::Range> pieces;

  std::size_t samples() const;
  bool operator==(const Round&) const = default;
};

// Rows of tensors that have `views` of them for each sample.
std::int64_t rows_of(const data::Range& piece, std::int64_t views);
std::int64_t rows_of(const Round& round, std::int64_t views);

// The passes over what the ranks of a group have of a batch (Krizhevsky 2014, section 4).
// 0 senders: one pass with all of it, scheme (a). Otherwise as many passes as ranks, each with
// samples of so many of them: 1 is scheme (b), in which pass j has all samples of rank j; as many
// as there are ranks is scheme (c), in which pass j has the j-th piece of everyone's. Between them
// rank r sends in the passes r, r + 1, ..., counted round, a piece in each, in the order of the
// passes. Pieces of a share differ by one sample at most. `passes` above 0 is scheme (c) in so many
// of them, whatever the senders. REQUIRES: 0 <= senders <= ranks, 0 <= passes.
std::vector<Round> plan_rounds(std::span<const std::size_t> shares, int senders, int passes = 0);

// Plans passes without gradients, where each is as any other, and reads all divided weights: no
// more passes than are under way at a time (plan::kPassesUnderWay), each with as many of everyone's
// samples.
std::vector<Round> plan_inference_rounds(std::span<const std::size_t> shares, int senders,
                                         int passes = 0);

}  // namespace convoy::train
