#include "comm/topology/tree.h"

#include <algorithm>
#include <cstdlib>

namespace convoy::comm {

int interior_ranks(int ranks, int colors) { return (ranks - 1 + colors - 1) / colors; }

ColorTree::ColorTree(int ranks, int colors, int color)
    : ranks_(ranks),
      colors_(colors),
      first_(
          static_cast<int>(static_cast<long long>(color) * interior_ranks(ranks, colors) % ranks)) {
}

int ColorTree::rank_at(int position) const { return (position + first_) % ranks_; }
int ColorTree::position_of(int rank) const { return (rank + ranks_ - first_) % ranks_; }

TreeLinks ColorTree::links(int rank) const {
  const int v = position_of(rank);
  TreeLinks links;
  if (v > 0) links.parent = rank_at((v - 1) / colors_);
  const long long first_child = static_cast<long long>(v) * colors_ + 1;
  const long long end = std::min<long long>(first_child + colors_, ranks_);
  for (long long u = first_child; u < end; ++u)
    links.children.push_back(rank_at(static_cast<int>(u)));
  return links;
}

bool ColorTree::interior(int rank) const {
  return position_of(rank) < interior_ranks(ranks_, colors_);
}

int ColorTree::depth(int rank) const {
  int depth = 0;
  for (int v = position_of(rank); v > 0; v = (v - 1) / colors_) ++depth;
  return depth;
}

int ColorTree::height() const { return depth(rank_at(ranks_ - 1)); }

bool has_disjoint_interiors(int ranks, int colors) {
  // Not `ranks % colors <= 1`, which says the same but not why.
  return static_cast<long long>(colors) * interior_ranks(ranks, colors) <= ranks;
}

std::vector<int> disjoint_color_counts(int ranks, int most) {
  std::vector<int> counts;
  for (int k = 1; k <= std::min(ranks, most); ++k) {
    if (has_disjoint_interiors(ranks, k)) counts.push_back(k);
  }
  return counts;
}

int choose_colors(int ranks, int wanted) {
  int best = 1;
  for (int k : disjoint_color_counts(ranks, ranks)) {
    if (std::abs(k - wanted) <= std::abs(best - wanted)) best = k;
  }
  return best;
}

std::vector<int> sent_chunks(int ranks, int colors) {
  std::vector<int> chunks(static_cast<std::size_t>(ranks));
  for (int color = 0; color < colors; ++color) {
    const ColorTree tree(ranks, colors, color);
    for (int rank = 0; rank < ranks; ++rank) {
      const TreeLinks links = tree.links(rank);
      chunks[static_cast<std::size_t>(rank)] +=
          static_cast<int>(links.children.size()) + (links.parent >= 0 ? 1 : 0);
    }
  }
  return chunks;
}

int busiest_link_chunks(int ranks, int colors) {
  const std::vector<int> chunks = sent_chunks(ranks, colors);
  return *std::max_element(chunks.begin(), chunks.end());
}

EdgeLanes::EdgeLanes(int ranks, int rank)
    : rank_(rank),
      parents_(static_cast<std::size_t>(ranks)),
      children_(static_cast<std::size_t>(ranks)) {}

// Even for edges up to a lower rank, odd for those to a higher one.
int EdgeLanes::to_parent(int parent) {
  return 2 * parents_[static_cast<std::size_t>(parent)]++ + (parent > rank_ ? 1 : 0);
}
int EdgeLanes::to_child(int child) {
  return 2 * children_[static_cast<std::size_t>(child)]++ + (child < rank_ ? 1 : 0);
}

int colors_at_once(int ranks, int colors, int lanes) {
  return has_disjoint_interiors(ranks, colors) ? colors : std::min(colors, lanes / 2);
}

}  // namespace convoy::comm
