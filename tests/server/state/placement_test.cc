#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"
#include "tests/base/scratch.h"

namespace convoy::server {
namespace {

std::vector<VectorSpec> specs(const std::vector<std::uint64_t>& sizes) {
  std::vector<VectorSpec> result;
  for (const std::uint64_t size : sizes) {
    result.push_back({"v" + std::to_string(result.size()), size, optim::Sgd{}});
  }
  return result;
}

std::uint64_t elements(const std::vector<SliceSpec>& slices) {
  return std::accumulate(slices.begin(), slices.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const SliceSpec& s) { return sum + s.size; });
}

// Every element of every vector is in one slice, in order.
void expect_complete(const std::vector<VectorSpec>& vectors, const Placement& placement) {
  std::vector<std::uint64_t> next(vectors.size(), 0);
  std::vector<int> slices(vectors.size(), 0);
  for (const auto& shard : placement) {
    for (const SliceSpec& slice : shard) {
      ASSERT_LT(slice.vector, vectors.size());
      EXPECT_EQ(slice.begin, next[slice.vector]);
      next[slice.vector] += slice.size;
      ++slices[slice.vector];
    }
  }
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    EXPECT_EQ(next[i], vectors[i].elements) << i;
    EXPECT_GE(slices[i], 1) << i;
  }
}

TEST(Placement, DividesLargeVectorsEvenly) {
  const auto vectors = specs({1 << 20, 100, 3 << 20, 0, 10});
  for (const std::size_t shards : {1u, 2u, 3u, 7u, 64u}) {
    const Placement placement = place(vectors, shards);
    ASSERT_EQ(placement.size(), shards);
    expect_complete(vectors, placement);
    const std::uint64_t even = ((4u << 20) + 110) / shards;
    for (const auto& shard : placement) {
      EXPECT_NEAR(static_cast<double>(elements(shard)), static_cast<double>(even), 1024 + 110);
    }
  }
}

TEST(Placement, LeavesSmallVectorsWhole) {
  const auto vectors = specs({16383, 16383, 5, 5, 5});
  const Placement placement = place(vectors, 2);
  expect_complete(vectors, placement);
  EXPECT_EQ(placement[0], (std::vector<SliceSpec>{{0, 0, 16383}}));
  EXPECT_EQ(placement[1].size(), 4u);
  expect_complete(specs({3}), place(specs({3}), 5));
  expect_complete(specs({0, 0}), place(specs({0, 0}), 2));
  EXPECT_TRUE(place({}, 3)[2].empty());
}

TEST(Placement, CutsAtMultiplesOf1024) {
  const auto vectors = specs({16384 * 3 + 5});
  const Placement placement = place(vectors, 5);
  expect_complete(vectors, placement);
  for (const auto& shard : placement) {
    for (const SliceSpec& slice : shard) EXPECT_EQ(slice.begin % 1024, 0u);
  }
}

// Two partitions' vectors on four shards: each partition is with two of them.
TEST(Placement, KeepsNeighborsTogether) {
  const auto vectors = specs({1 << 20, 1 << 20, 1 << 20, 1 << 20});
  const Placement placement = place(vectors, 4);
  for (std::size_t s = 0; s < 4; ++s) {
    ASSERT_EQ(placement[s].size(), 1u);
    EXPECT_EQ(placement[s][0].vector, s);
  }
}

TEST(Placement, HoldsForHugeVectors) {
  const auto vectors = specs({kMaxElements, kMaxElements, 7});
  const Placement placement = place(vectors, 1000);
  expect_complete(vectors, placement);
  EXPECT_NEAR(static_cast<double>(elements(placement[500])), 2.0 * (1ull << 40) / 1000, 2048);
}

TEST(Placement, RefusesWhatCannotBe) {
  const auto message = [](std::vector<VectorSpec> vectors, std::size_t shards = 1) {
    return test::message_of<UsageError>([&] { place(vectors, shards); });
  };
  EXPECT_EQ(message({{"a", 1, {}}, {"a", 2, {}}}),
            "two vectors are called 'a'; each needs its own name");
  EXPECT_NE(message({{"", 1, {}}}), "");
  EXPECT_NE(message({{std::string(kMaxVectorName + 1, 'x'), 1, {}}}), "");
  EXPECT_EQ(message({{std::string(kMaxVectorName, 'x'), 1, {}}}), "");
  EXPECT_NE(message({{"a", kMaxElements + 1, {}}}), "");
  EXPECT_EQ(message({{"fc", 1, optim::Lamb{}}}),
            "vector 'fc': lamb goes by norms of whole parameters, of which a shard has slices; "
            "choose a rule of single elements");
  EXPECT_NE(message({{"fc", 1, optim::Lars{}}}).find("vector 'fc': lars"), std::string::npos);
  EXPECT_NE(message({{"fc", 1, optim::Sgd{.lr = -1}}}).find("vector 'fc': sgd: lr is -1"),
            std::string::npos);
  EXPECT_EQ(message({}, 0), "0 shards can hold no vectors; name 1 or more");
}

}  // namespace
}  // namespace convoy::server
