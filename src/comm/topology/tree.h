// The trees of the multi-color allreduce (Kumar et al. 2017, section 4.2), as arithmetic.
#pragma once

#include <vector>

namespace convoy::comm {

// What one rank has to know of a tree.
struct TreeLinks {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};

// Color `color` of `colors` trees over `ranks` ranks. Each is the k-ary breadth-first tree, k =
// `colors`: the node at position v has the parent (v-1)/k, so positions 0 .. m-1 are interior, m =
// interior_ranks(ranks, k), and the others are leaves. Color c puts rank (v + c·m) mod ranks at
// position v. One color is a chain.
//
// Any ranks >= 1 and colors >= 1 give spanning trees. What the paper promises, interiors that are
// disjoint among the colors, holds exactly when has_disjoint_interiors().
class ColorTree {
 public:
  ColorTree(int ranks, int colors, int color);

  int root() const { return rank_at(0); }
  int rank_at(int position) const;
  int position_of(int rank) const;
  TreeLinks links(int rank) const;
  // Whether the rank has children in this color.
  bool interior(int rank) const;
  // Edges from the rank up to the root.
  int depth(int rank) const;
  // Edges from the farthest rank up to the root.
  int height() const;

 private:
  int ranks_;
  int colors_;
  int first_;  // the rank at position 0
};

// Ranks that have children in one k-ary breadth-first tree: ceil((ranks-1)/k).
int interior_ranks(int ranks, int colors);

// Whether no rank is interior in two colors: k·ceil((ranks-1)/k) <= ranks, which holds exactly when
// ranks mod k is 0 or 1.
bool has_disjoint_interiors(int ranks, int colors);

// The numbers of colors up to `most` for which it holds, ascending; 1 and (if allowed by `most`)
// `ranks` are always among them.
std::vector<int> disjoint_color_counts(int ranks, int most);

// The one of them that is nearest to `wanted`, the larger of two as near. The paper took 4.
inline constexpr int kUsualColors = 4;
int choose_colors(int ranks, int wanted = kUsualColors);

// What each rank sends in a multi-color allreduce, in chunks of which the data has `colors`: one to
// its parent and one to each child, for every color. It receives as many.
std::vector<int> sent_chunks(int ranks, int colors);

// The largest of them: the load of the busiest link between a rank and its network, each way. With
// disjoint interiors it is the larger of
//   k - 1 + min(k, ranks-1)      a root
//   k + min(k, ranks-1-k)        the rank under it, if that has children at all
// of k chunks: never more than 2 S, and 2 S (ranks-1)/ranks, the least possible, for k = ranks.
int busiest_link_chunks(int ranks, int colors);

// Numbers that tell apart what goes between two ranks in different colors. A rank asks for all its
// edges, in ascending order of the colors; both ends of an edge count alike, so that they get the
// same number without a word. One number serves both directions of an edge.
class EdgeLanes {
 public:
  EdgeLanes(int ranks, int rank);

  int to_parent(int parent);
  int to_child(int child);

 private:
  int rank_;
  std::vector<int> parents_, children_;  // edges so far, by the other rank
};

// How many colors may be under way at once so that all lanes are below `lanes`, which is at
// least 4. With disjoint interiors that is all of them: two ranks then have at most two edges one
// way up.
int colors_at_once(int ranks, int colors, int lanes);

}  // namespace convoy::comm
