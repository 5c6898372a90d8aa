#include "convoy/base/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "convoy/base/error.h"

namespace convoy {
namespace {

TEST(Slice, SaysWhatItIs) {
  EXPECT_EQ(whole_of("fc.weight", {3, 4}).text(), "fc.weight [3, 4]");
  EXPECT_EQ((Slice{"w", {10, 4}, {2, 0}, {5, 4}}.text()), "w[2:7, :] of [10, 4]");
  EXPECT_EQ(whole_of("step", {}).elements(), 1);
  EXPECT_TRUE(whole_of("step", {}).whole());
  EXPECT_EQ(whole_of("none", {3, 0}).elements(), 0);
}

TEST(Slice, WhatLiesOutsideIsRefused) {
  EXPECT_NO_THROW((Slice{"w", {10, 4}, {10, 0}, {0, 4}}.check()));
  const std::int64_t most = std::int64_t{1} << 62;
  EXPECT_NO_THROW((whole_of("w", {most}).check()));
  for (const Slice& bad :
       {Slice{"w", {10, 4}, {6, 0}, {5, 4}}, Slice{"w", {10}, {-1}, {5}},
        Slice{"w", {10}, {0}, {-1}}, Slice{"w", {10}, {11}, {0}}, Slice{"w", {10}, {}, {}},
        Slice{"w", {}, {0}, {1}}, Slice{"w", {-1}, {0}, {0}}, whole_of("w", {most, 2}),
        whole_of("w", {0, most, 2}), Slice{"w", {most}, {most}, {most}}}) {
    EXPECT_THROW(bad.check(), UsageError) << bad.text();
  }
}

TEST(Slice, EvenPartsTile) {
  for (const std::int64_t extent : {0, 1, 5, 8}) {
    for (const std::int64_t parts : {1, 2, 3, 8}) {
      std::vector<Slice> slices;
      for (std::int64_t i = 0; i < parts; ++i)
        slices.push_back(even_part("w", {2, extent, 3}, 1, i, parts));
      EXPECT_EQ(problem_of_tiling(whole_of("w", {2, extent, 3}), slices), std::nullopt);
      if (extent < parts) EXPECT_EQ(slices.back().elements(), 0);
    }
  }
}

TEST(Slice, GapsAndOverlapsAreNamed) {
  const Slice whole = whole_of("w", {4, 4});
  const Slice top{"w", {4, 4}, {0, 0}, {2, 4}}, bottom{"w", {4, 4}, {2, 0}, {2, 4}},
      middle{"w", {4, 4}, {1, 1}, {2, 2}};
  EXPECT_EQ(problem_of_tiling(whole, std::vector{top}), "nobody holds w[2:4, :] of [4, 4]");
  EXPECT_EQ(problem_of_tiling(whole, std::vector{bottom, top}), std::nullopt);
  EXPECT_EQ(problem_of_tiling(whole, std::vector{top, bottom, middle}),
            "two hold elements of w[1:3, 1:3] of [4, 4]");
  EXPECT_EQ(problem_of_tiling(whole, std::vector{top, top, bottom}),
            "two hold elements of w[0:2, :] of [4, 4]");
  EXPECT_NE(problem_of_tiling(whole, std::vector{middle}), std::nullopt);
}

// As many as are not compared with each other: what is counted element by element decides.
TEST(Slice, ManyThatTileAreTold) {
  std::mt19937 random(5);
  const std::vector<std::int64_t> shape{12, 9, 7};
  const Slice whole = whole_of("w", shape);
  int right = 0;
  for (int round = 0; round < 200; ++round) {
    // Cut at random, and then perhaps moved by one.
    std::vector<Slice> slices{whole};
    while (slices.size() < 300) {
      const std::size_t i = random() % slices.size(), d = random() % 3;
      if (slices[i].size[d] < 2) continue;
      Slice rest = slices[i];
      const std::int64_t first =
          1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rest.size[d] - 1));
      slices[i].size[d] = first;
      rest.begin[d] += first;
      rest.size[d] -= first;
      slices.push_back(rest);
    }
    for (std::uint64_t moves = random() % 3; moves > 0; --moves) {
      Slice& moved = slices[random() % slices.size()];
      const std::size_t d = random() % 3;
      if (moved.begin[d] > 0) --moved.begin[d];
    }
    std::vector<int> held(12 * 9 * 7);
    for (const Slice& s : slices)
      for (std::int64_t i = 0; i < s.size[0]; ++i)
        for (std::int64_t j = 0; j < s.size[1]; ++j)
          for (std::int64_t k = 0; k < s.size[2]; ++k)
            ++held[static_cast<std::size_t>(((s.begin[0] + i) * 9 + s.begin[1] + j) * 7 +
                                            s.begin[2] + k)];
    const bool tiled = std::all_of(held.begin(), held.end(), [](int n) { return n == 1; });
    right += tiled ? 1 : 0;
    ASSERT_EQ(!problem_of_tiling(whole, slices), tiled) << round;
  }
  EXPECT_GT(right, 20);
  EXPECT_LT(right, 180);
}

TEST(Slice, ManyMayBeCutInFewDimensionsAndFewInMany) {
  const std::vector<std::int64_t> shape(31, 2);
  std::vector<Slice> slices;
  Slice left = whole_of("w", shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    left.size[d] = 1;
    slices.push_back(left);
    left.begin[d] = 1;
  }
  slices.push_back(left);
  EXPECT_EQ(problem_of_tiling(whole_of("w", shape), slices), std::nullopt);  // few
  slices.resize(300,
                Slice{"w", shape, std::vector<std::int64_t>(31), std::vector<std::int64_t>(31)});
  EXPECT_NE(problem_of_tiling(whole_of("w", shape), slices)->find(" in more than 6 dimensions"),
            std::string::npos);
}

// Every pair of boxes of a small tensor, against one element at a time.
TEST(Slice, CopiesWhatBothHold) {
  const std::vector<std::int64_t> shape{3, 4, 2};
  std::vector<Slice> boxes;
  for (std::int64_t a = 0; a < 3; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t n = 1; n <= 3 - a; ++n)
        for (std::int64_t m = 1; m <= 4 - b; ++m)
          for (std::int64_t c = 0; c < 2; ++c)
            boxes.push_back({"w", shape, {a, b, c}, {n, m, 2 - c}});
  const auto inside = [](const Slice& s, std::int64_t i, std::int64_t j, std::int64_t k) {
    const std::int64_t at[] = {i, j, k};
    for (std::size_t d = 0; d < 3; ++d)
      if (at[d] < s.begin[d] || at[d] >= s.begin[d] + s.size[d]) return false;
    return true;
  };
  const auto values = [&](const Slice& s, const Slice& known) {  // -1 where `known` has nothing
    std::vector<int> list;
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 4; ++j)
        for (std::int64_t k = 0; k < 2; ++k)
          if (inside(s, i, j, k))
            list.push_back(inside(known, i, j, k) ? static_cast<int>(i * 100 + j * 10 + k) : -1);
    return list;
  };
  for (const Slice& from : boxes) {
    const std::vector<int> source = values(from, from);
    for (const Slice& to : boxes) {
      std::vector<int> got(static_cast<std::size_t>(to.elements()), -1);
      const std::int64_t copied = copy_overlap(from, std::as_bytes(std::span(source)), to,
                                               std::as_writable_bytes(std::span(got)), sizeof(int));
      ASSERT_EQ(got, values(to, from)) << from.text() << " to " << to.text();
      ASSERT_EQ(copied, std::count_if(got.begin(), got.end(), [](int v) { return v >= 0; }));
    }
  }
}

TEST(Slice, ScalarsAreCopied) {
  const Slice scalar = whole_of("step", {});
  const double from = 3;
  double to = 0;
  EXPECT_EQ(copy_overlap(scalar, std::as_bytes(std::span(&from, 1)), scalar,
                         std::as_writable_bytes(std::span(&to, 1)), sizeof(double)),
            1);
  EXPECT_EQ(to, 3);
}

TEST(Slice, DifferentTensorsAndShapes) {
  EXPECT_EQ(overlap(whole_of("a", {3}), whole_of("b", {3})), std::nullopt);
  EXPECT_THROW(overlap(whole_of("a", {3}), whole_of("a", {4})), UsageError);
  std::vector<float> three(3);
  EXPECT_THROW(copy_overlap(whole_of("a", {4}), std::as_bytes(std::span(three)), whole_of("a", {4}),
                            std::as_writable_bytes(std::span(three)), 4),
               UsageError);
}

TEST(Slice, NoNumberOfBytesWrapsAround) {
  const Slice huge = whole_of("w", {(std::int64_t{1} << 61) + 1});
  std::vector<double> one(1);
  EXPECT_THROW(copy_overlap(huge, std::as_bytes(std::span(one)), {"w", huge.shape, {1000}, {1}},
                            std::as_writable_bytes(std::span(one)), sizeof(double)),
               UsageError);
  EXPECT_THROW(copy_overlap({"w", {4}, {5}, {1}}, std::as_bytes(std::span(one)), whole_of("w", {4}),
                            std::as_writable_bytes(std::span(one)), 8),
               UsageError);
}

}  // namespace
}  // namespace convoy
