// The trees of the multi-color allreduce for every number of ranks and colors that is likely.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "comm/topology/nodes.h"
#include "comm/topology/ring.h"
#include "comm/topology/tree.h"

namespace convoy::comm {
namespace {

constexpr int kMostRanks = 130;
constexpr int kMostColors = 16;

template <class F>
void for_all(F&& check) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int colors = 1; colors <= kMostColors; ++colors) {
      check(ranks, colors);
      if (testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << ranks << " ranks, " << colors << " colors";
        return;
      }
    }
  }
}

TEST(ColorTree, SpansAllRanks) {
  for_all([](int ranks, int colors) {
    for (int color = 0; color < colors; ++color) {
      const ColorTree tree(ranks, colors, color);
      int edges = 0, roots = 0, interior = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(tree.rank_at(tree.position_of(rank)), rank);
        const TreeLinks links = tree.links(rank);
        ASSERT_LE(static_cast<int>(links.children.size()), colors);
        ASSERT_EQ(tree.interior(rank), !links.children.empty());
        interior += tree.interior(rank) ? 1 : 0;
        roots += links.parent < 0 ? 1 : 0;
        ASSERT_EQ(links.parent < 0, rank == tree.root());
        edges += static_cast<int>(links.children.size());
        for (int child : links.children) ASSERT_EQ(tree.links(child).parent, rank);
        // Up to the root without a circle, in as many steps as depth() says.
        int at = rank, steps = 0;
        for (; tree.links(at).parent >= 0; at = tree.links(at).parent)
          ASSERT_LE(++steps, ranks) << "a circle";
        ASSERT_EQ(at, tree.root());
        ASSERT_EQ(tree.depth(rank), steps);
        ASSERT_LE(steps, tree.height());
      }
      ASSERT_EQ(roots, 1);
      ASSERT_EQ(edges, ranks - 1);
      ASSERT_EQ(interior, interior_ranks(ranks, colors));
    }
  });
}

TEST(ColorTree, InteriorsAreDisjointExactlyWhenPromised) {
  for_all([](int ranks, int colors) {
    std::vector<int> times(static_cast<std::size_t>(ranks));
    for (int color = 0; color < colors; ++color) {
      const ColorTree tree(ranks, colors, color);
      for (int rank = 0; rank < ranks; ++rank)
        times[static_cast<std::size_t>(rank)] += tree.interior(rank) ? 1 : 0;
    }
    const bool disjoint = *std::max_element(times.begin(), times.end()) <= 1;
    ASSERT_EQ(disjoint, has_disjoint_interiors(ranks, colors));
    ASSERT_EQ(disjoint, ranks % colors <= 1);
  });
}

TEST(ColorTree, TheBusiestLinkCarriesWhatIsDocumented) {
  for_all([](int ranks, int k) {
    const std::vector<int> sent = sent_chunks(ranks, k);
    int total = 0;
    for (int chunks : sent) total += chunks;
    ASSERT_EQ(total, 2 * (ranks - 1) * k) << "each edge carries a chunk up and a chunk down";
    const int busiest = busiest_link_chunks(ranks, k);
    // No allreduce sends less than 2 S (p-1)/p from its busiest rank.
    ASSERT_GE(busiest * ranks, 2 * (ranks - 1) * k);
    if (!has_disjoint_interiors(ranks, k) || ranks == 1) return;
    const int root = k - 1 + std::min(k, ranks - 1);
    const int below = ranks - 1 - k > 0 ? k + std::min(k, ranks - 1 - k) : 0;
    ASSERT_EQ(busiest, std::max(root, below));
    ASSERT_LE(busiest, 2 * k);
  });
  for (int ranks = 2; ranks <= kMostRanks; ++ranks)
    EXPECT_EQ(busiest_link_chunks(ranks, ranks), 2 * (ranks - 1));
}

TEST(ColorTree, FourColorsOnEightRanksAreThoseOfThePaper) {
  // Figure 2: chunk 0 is summed on the tree rooted at node 0 with node 1 as the only other interior
  // node, chunk 1 on the one rooted at node 2 with node 3.
  for (int color = 0; color < 4; ++color) {
    const ColorTree tree(8, 4, color);
    EXPECT_EQ(tree.root(), 2 * color);
    for (int rank = 0; rank < 8; ++rank)
      EXPECT_EQ(tree.interior(rank), rank / 2 == color) << "rank " << rank;
    EXPECT_EQ(tree.height(), 2);
  }
}

TEST(ColorTree, OneColorIsAChainAndAsManyAsRanksAreStars) {
  const ColorTree chain(5, 1, 0);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(chain.links(rank).parent, rank - 1);
    EXPECT_EQ(chain.depth(rank), rank);
  }
  for (int color = 0; color < 5; ++color) {
    const ColorTree star(5, 5, color);
    EXPECT_EQ(star.root(), color);
    EXPECT_EQ(star.links(color).children.size(), 4u);
    EXPECT_EQ(star.height(), 1);
  }
}

// Every edge of the trees, as both its ends number it, for the colors that go at once.
void expect_lanes_that_differ(int ranks, int colors) {
  constexpr int kLanes = 63;
  const int at_once = colors_at_once(ranks, colors, kLanes);
  ASSERT_GT(at_once, 0);
  for (int first = 0; first < colors; first += at_once) {
    std::map<std::array<int, 3>, int> seen_by_child;  // color, child, parent: lane
    std::map<std::array<int, 3>, int> seen_by_parent;
    std::set<std::array<int, 3>> taken;  // two ranks, the lower one first, and a lane
    for (int rank = 0; rank < ranks; ++rank) {
      EdgeLanes lanes(ranks, rank);
      for (int c = first; c < std::min(first + at_once, colors); ++c) {
        const TreeLinks links = ColorTree(ranks, colors, c).links(rank);
        if (links.parent >= 0) {
          const int lane = lanes.to_parent(links.parent);
          ASSERT_LT(lane, kLanes);
          seen_by_child[{c, rank, links.parent}] = lane;
          ASSERT_TRUE(
              taken.insert({std::min(rank, links.parent), std::max(rank, links.parent), lane})
                  .second);
        }
        for (int child : links.children) seen_by_parent[{c, child, rank}] = lanes.to_child(child);
      }
    }
    ASSERT_EQ(seen_by_child, seen_by_parent);
  }
}

TEST(EdgeLanes, TellApartTheColorsBetweenTwoRanks) {
  for_all([](int ranks, int colors) { expect_lanes_that_differ(ranks, colors); });
  for (const auto& [ranks, colors] :
       {std::pair(64, 64), {65, 64}, {128, 128}, {129, 64}, {130, 43}, {3, 100}, {2, 130}}) {
    expect_lanes_that_differ(ranks, colors);
  }
  EXPECT_EQ(colors_at_once(128, 128, 63), 128);
}

TEST(ColorCounts, AreThoseThatKeepThePromise) {
  EXPECT_EQ(disjoint_color_counts(8, 16), (std::vector<int>{1, 2, 4, 7, 8}));
  EXPECT_EQ(disjoint_color_counts(16, 8), (std::vector<int>{1, 2, 3, 4, 5, 8}));
  EXPECT_EQ(disjoint_color_counts(1, 4), std::vector<int>{1});
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    const auto counts = disjoint_color_counts(ranks, ranks);
    EXPECT_EQ(counts.front(), 1);
    EXPECT_EQ(counts.back(), ranks);
    const std::set<int> listed(counts.begin(), counts.end());
    for (int k = 1; k <= ranks; ++k) EXPECT_EQ(listed.contains(k), ranks % k <= 1);
    for (int wanted = 1; wanted <= kMostColors; ++wanted) {
      const int chosen = choose_colors(ranks, wanted);
      ASSERT_TRUE(listed.contains(chosen));
      for (int k : counts) EXPECT_LE(std::abs(chosen - wanted), std::abs(k - wanted));
    }
  }
  EXPECT_EQ(choose_colors(8), 4);
  EXPECT_EQ(choose_colors(2), 2);
  EXPECT_EQ(choose_colors(11), 5);
}

TEST(RingLinks, GoAround) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::set<int> seen;
    int at = 0;
    for (int i = 0; i < ranks; ++i) {
      seen.insert(at);
      EXPECT_EQ(ring_links(ranks, ring_links(ranks, at).next).previous, at);
      at = ring_links(ranks, at).next;
    }
    EXPECT_EQ(at, 0);
    EXPECT_EQ(static_cast<int>(seen.size()), ranks);
  }
}

// Every way to place 1 to 6 ranks on up to 3 hosts.
TEST(Nodes, RanksAreFoundOnTheirHosts) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    int ways = 1;
    for (int i = 0; i < ranks; ++i) ways *= 3;
    for (int way = 0; way < ways; ++way) {
      std::vector<std::string> hosts;
      for (int i = 0, rest = way; i < ranks; ++i, rest /= 3)
        hosts.push_back(std::string(1, static_cast<char>('a' + rest % 3)));
      const NodeMap map(hosts);
      ASSERT_EQ(map.nodes(), static_cast<int>(std::set(hosts.begin(), hosts.end()).size()));
      std::set<std::size_t> sizes;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& members = map.members(map.node_of(rank));
        ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
        ASSERT_EQ(members[static_cast<std::size_t>(map.index_of(rank))], rank);
        const std::string& host = hosts[static_cast<std::size_t>(rank)];
        ASSERT_EQ(static_cast<std::ptrdiff_t>(members.size()),
                  std::count(hosts.begin(), hosts.end(), host));
        for (int member : members) ASSERT_EQ(hosts[static_cast<std::size_t>(member)], host);
        sizes.insert(members.size());
      }
      ASSERT_EQ(map.even(), sizes.size() == 1);
      if (!map.even()) continue;
      std::set<int> all;  // the layers hold every rank once
      for (int index = 0; index < static_cast<int>(*sizes.begin()); ++index) {
        for (int rank : map.layer(index)) {
          ASSERT_EQ(map.index_of(rank), index);
          ASSERT_TRUE(all.insert(rank).second);
        }
      }
      ASSERT_EQ(static_cast<int>(all.size()), ranks);
    }
  }
}

}  // namespace
}  // namespace convoy::comm
