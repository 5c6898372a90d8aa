#include "comm/collectives/allreduce/table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/collectives/ring/stream.h"
#include "comm/collectives/tree/stream.h"
#include "comm/topology/tree.h"

namespace convoy::comm {
namespace {

using enum AllreduceAlgorithm;

using Work = AllreduceWork;

// Name in rules, whether it has colors and whether it has segments, what it needs, the function.
constexpr std::array kTable{
    AllreduceRow{naive, "naive", false, false, Needs::nothing,
                 [](Work w) { return allreduce_naive(w.io, w.data, w.op); }},
    AllreduceRow{recursive_doubling, "recursive-doubling", false, false, Needs::nothing,
                 [](Work w) { return allreduce_recursive_doubling(w.io, w.data, w.op); }},
    AllreduceRow{ring, "ring", false, true, Needs::nothing,
                 [](Work w) { return allreduce_ring(w.io, w.data, w.op, w.choice.pipeline); }},
    AllreduceRow{ring_rsag, "ring-rsag", false, true, Needs::nothing,
                 [](Work w) { return allreduce_ring_rsag(w.io, w.data, w.op, w.choice.pipeline); }},
    AllreduceRow{multicolor, "multicolor", true, true, Needs::nothing,
                 [](Work w) {
                   const int colors = w.choice.colors_among(w.io.size());
                   return allreduce_multicolor(w.io, w.data, w.op, colors, w.choice.pipeline);
                 }},
    AllreduceRow{shared, "shared", false, false, Needs::one_host,
                 [](Work w) { return allreduce_shared(*w.locality.node, w.call, w.data, w.op); }},
    AllreduceRow{hierarchical, "hierarchical", true, true, Needs::even_hosts,
                 [](Work w) {
                   return allreduce_hierarchical(w.io, w.locality, w.call, w.data, w.op, w.choice,
                                                 std::move(w.turn));
                 }},
    AllreduceRow{mpi, "mpi", false, false, Needs::own_mpi,
                 [](Work w) { return allreduce_mpi(w.io, w.data, w.op); }}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].algorithm) != i) return false;
  return true;
}
static_assert(in_order(), "row_of() goes by the place in the table");

}  // namespace

// Messages: below 32 KiB the steps cost more than the bytes.
const char* const kBuiltInSelection = "shared; ..32KiB recursive-doubling; hierarchical; ring-rsag";

std::span<const AllreduceRow> allreduce_table() { return kTable; }

const AllreduceRow& row_of(AllreduceAlgorithm algorithm) {
  return kTable[static_cast<std::size_t>(algorithm)];
}

const AllreduceRow* find_row(std::string_view name) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const AllreduceRow& row) { return row.name == name; });
  return found == kTable.end() ? nullptr : &*found;
}

const char* name_of(AllreduceAlgorithm algorithm) { return row_of(algorithm).name; }

bool Abilities::allow(AllreduceAlgorithm algorithm) const {
  const Needs needs = row_of(algorithm).needs;
  return (needs != Needs::one_host || shared) && (needs != Needs::even_hosts || hierarchical) &&
         (needs != Needs::own_mpi || own_mpi);
}

int AllreduceChoice::colors_among(int ranks) const {
  if (!row_of(algorithm).colored) return 0;
  if (colors == kChosenColors) return choose_colors(ranks);
  return colors == kColorPerRank ? ranks : colors;
}

// The tree with one child per rank is the chain 0, 1, .. p-1.
Task allreduce_ring(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return tree_stream(io, data, op, 1, pipeline);
}

Task allreduce_ring_rsag(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return ring_stream(io, data, op, RingPhases::both, pipeline);
}

Task allreduce_multicolor(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline) {
  return tree_stream(io, data, op, colors, pipeline);
}

Task allreduce(Io& io, const Locality& locality, const Call& call, Buffer data, ReduceOp op,
               const AllreduceChoice& choice, Turn turn) {
  return row_of(choice.algorithm).run({io, locality, call, data, op, choice, std::move(turn)});
}

}  // namespace convoy::comm
