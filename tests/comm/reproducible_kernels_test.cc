// Sums and extremes that don't depend on order, against exact ones, for every instruction set that
// this machine has.
#include "comm/collectives/reproducible/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <numeric>
#include <string>

#include "comm/kernels/reduce.h"
#include "convoy/base/error.h"
#include "tests/comm/reproducible_reference.h"
#include "tests/comm/targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convoy::comm {
namespace {

class ReproducibleKernels : public OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, ReproducibleKernels, testing::ValuesIn(targets()),
                         name_of_target);

using Bits = std::vector<std::uint64_t>;

// Contributions by [contribution][element].
std::vector<Bits> contributions(Type type, std::size_t n, std::size_t count) {
  std::vector<Bits> all(n, Bits(count));
  for (std::size_t who = 0; who < n; ++who) {
    for (std::size_t i = 0; i < count; ++i) all[who][i] = contribution_bits(type, who, i);
  }
  return all;
}

std::vector<char> packed(Type type, const Bits& bits) {
  std::vector<char> memory(bits.size() * size_of(type));
  for (std::size_t i = 0; i < bits.size(); ++i) set_bits(type, memory.data(), i, bits[i]);
  return memory;
}
Bits unpacked(Type type, const std::vector<char>& memory) {
  Bits bits(memory.size() / size_of(type));
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = bits_at(type, memory.data(), i);
  return bits;
}

// All at once.
Bits direct(ReduceOp op, Type type, const std::vector<Bits>& all) {
  std::vector<std::vector<char>> memory;
  std::vector<const void*> sources;
  for (const Bits& bits : all) memory.push_back(packed(type, bits));
  for (const auto& each : memory) sources.push_back(each.data());
  std::vector<char> result(memory[0].size());
  reduce_reproducibly(op, type, result.data(), sources, all[0].size(),
                      op == ReduceOp::average ? static_cast<int>(all.size()) : 1);
  return unpacked(type, result);
}

// As ranks do that meet in pairs, in any order: exponents, whole numbers, and back.
Bits by_steps(ReduceOp op, Type type, const std::vector<Bits>& all) {
  const std::size_t count = all[0].size();
  const auto n = static_cast<int>(all.size());
  std::vector<std::vector<char>> data;
  for (const Bits& bits : all) data.push_back(packed(type, bits));
  if (op == ReduceOp::max || op == ReduceOp::min) {
    const Type whole = ordered_type(type);
    std::vector<std::vector<char>> ordered(all.size(), std::vector<char>(count * size_of(whole)));
    for (std::size_t who = 0; who < all.size(); ++who) {
      to_ordered(type, op, data[who].data(), ordered[who].data(), count);
      if (who > 0) reduce(op, whole, ordered[0].data(), ordered[who].data(), count);
    }
    from_ordered(type, ordered[0].data(), data[0].data(), count);
    return unpacked(type, data[0]);
  }
  const Grid grid = grid_of(type, n);
  std::vector<char> most(count * size_of(grid.exponent)), exponents(most.size());
  for (const auto& each : data) {
    find_exponents(grid, each.data(), exponents.data(), count);
    reduce(ReduceOp::max, grid.exponent, most.data(), exponents.data(), count);
  }
  const std::size_t bytes = count * size_of(grid.whole);
  std::vector<std::byte> high(bytes), low(bytes), next_high(bytes), next_low(bytes);
  for (auto& each : data) {
    WholeNumbers next{next_high.data(), next_low.data()};
    if (grid.in_place()) next[0] = reinterpret_cast<std::byte*>(each.data());
    to_whole(grid, each.data(), most.data(), next, count);
    reduce(ReduceOp::sum, grid.whole, high.data(), next[0], count);
    if (grid.parts == 2) reduce(ReduceOp::sum, grid.whole, low.data(), next[1], count);
  }
  from_whole(grid, {high.data(), low.data()}, most.data(), data[0].data(), count,
             op == ReduceOp::average ? n : 1);
  return unpacked(type, data[0]);
}

// What Grid and from_whole() promise, for one element.
void check_sum(Type type, const std::vector<Bits>& all, std::size_t i, int divisor,
               std::uint64_t result) {
  const FloatFormat f = format_of(type);
  const Grid grid = grid_of(type, static_cast<int>(all.size()));
  double largest = 0;
  bool positive = false, negative = false, nan = false;
  for (const Bits& bits : all) {
    const double x = value_of(type, bits[i]);
    nan = nan || std::isnan(x);
    positive = positive || x == HUGE_VAL;
    negative = negative || x == -HUGE_VAL;
    largest = std::max(largest, std::fabs(x));
  }
  const double got = value_of(type, result);
  const int special = 3 - 2 * f.least_exponent;
  if (nan || (positive && negative)) {
    ASSERT_EQ(result, (static_cast<std::uint64_t>(special) << f.mantissa) |
                          (std::uint64_t{1} << (f.mantissa - 1)));
    return;
  }
  if (positive || negative) {
    ASSERT_EQ(got, positive ? HUGE_VAL : -HUGE_VAL);
    return;
  }
  // Scaled, so that nothing here overflows or gets lost among subnormals.
  const int scale = largest == 0 ? 0 : -std::ilogb(largest);
  const auto scaled = [&](double x) {
    return std::ldexp(std::ldexp(x, scale / 2), scale - scale / 2);
  };
  ExactSum error;
  for (const Bits& bits : all) error.add(-scaled(value_of(type, bits[i])));
  if (error.value() == 0) {
    ASSERT_EQ(result, 0U) << "+0";
    return;
  }
  const double exact = -error.value() / divisor;
  const double n = static_cast<double>(all.size());
  const double by_grid = (n - 1) * std::ldexp(scaled(largest), -grid.bits) / divisor;
  if (std::isinf(got)) {
    const double limit =
        scaled(value_of(type, make_bits(type, false, ~std::uint64_t{0}, 1 - f.least_exponent)));
    ASSERT_EQ(std::signbit(got), std::signbit(exact));
    ASSERT_GE(std::fabs(exact) * (1 + std::ldexp(1.0, -f.mantissa)) + by_grid, limit);
    return;
  }
  error.add_product(scaled(got), divisor);
  const int place = std::max(got == 0 ? f.least_exponent : std::ilogb(got), f.least_exponent);
  double half = std::ldexp(0.5, place - f.mantissa + scale);
  if (grid.narrow() && type != Type::f32) half *= 1 + 0x1p-12;  // rounded to f32 before
  ASSERT_LE(std::fabs(error.value()) / divisor, (half + by_grid) * (1 + 0x1p-40)) << "of " << exact;
}

std::vector<std::size_t> numbers_of_contributions(Type type) {
  if (type == Type::f64) return {2, 3, 7, 64, 512, 513, 700};
  return {2, 3, 5, 8, 64, 65, 100};
}

TEST_P(ReproducibleKernels, SumsAreTheExactOnesRoundedInAnyOrder) {
  for (const Type type : kFloatingTypes) {
    for (const std::size_t n : numbers_of_contributions(type)) {
      const std::size_t count = n > 100 ? 60 : 500;
      const auto all = contributions(type, n, count);
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
        const Bits result = direct(op, type, all);
        for (std::size_t i = 0; i < count; ++i) {
          check_sum(type, all, i, op == ReduceOp::average ? static_cast<int>(n) : 1, result[i]);
          if (testing::Test::HasFatalFailure()) {
            FAIL() << name_of(op) << " of " << n << " x " << name_of(type) << ", element " << i;
          }
        }
        ASSERT_EQ(by_steps(op, type, all), result) << name_of(type) << ", " << n;
        std::vector<Bits> other = all;
        for (std::size_t k = 0; k < n; ++k) other[permutation(n, 5, n)[k]] = all[k];
        ASSERT_EQ(direct(op, type, other), result) << name_of(type) << ", " << n;
        std::reverse(other.begin(), other.end());
        ASSERT_EQ(by_steps(op, type, other), result) << name_of(type) << ", " << n;
      }
    }
  }
}

TEST_P(ReproducibleKernels, ExtremesHaveOneOrder) {
  for (const Type type : kFloatingTypes) {
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
      const auto all = contributions(type, 5, 1000);
      const Bits result = direct(op, type, all);
      for (std::size_t i = 0; i < result.size(); ++i) {
        bool nan = false;
        std::uint64_t want = all[0][i];
        for (const Bits& bits : all) {
          const double x = value_of(type, bits[i]), y = value_of(type, want);
          nan = nan || std::isnan(x);
          // Beyond the smaller one, the sign tells zeros apart.
          const bool above = x > y || (x == y && std::signbit(y) && !std::signbit(x));
          const bool below = x < y || (x == y && std::signbit(x) && !std::signbit(y));
          if (op == ReduceOp::max ? above : below) want = bits[i];
        }
        if (nan)
          ASSERT_EQ(result[i], direct(ReduceOp::sum, type, all)[i]) << "the one NaN";
        else
          ASSERT_EQ(result[i], want) << name_of(op) << " of " << name_of(type) << " " << i;
      }
      ASSERT_EQ(by_steps(op, type, all), result);
      std::vector<Bits> other = all;
      std::reverse(other.begin(), other.end());
      ASSERT_EQ(direct(op, type, other), result);
      ASSERT_EQ(by_steps(op, type, other), result);
    }
  }
}

TEST_P(ReproducibleKernels, AllInstructionSetsGiveTheSameBits) {
  for (const Type type : kFloatingTypes) {
    const auto all = contributions(type, 6, 300);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min}) {
      choose(GetParam());
      const Bits here = direct(op, type, all);
      choose(targets().back());
      ASSERT_EQ(here, direct(op, type, all)) << name_of(op) << " of " << name_of(type);
    }
  }
}

TEST_P(ReproducibleKernels, EveryLengthAtAnyAddress) {
  for (const Type type : kFloatingTypes) {
    for (std::size_t count = 0; count < 70; ++count) {
      const auto want = reproducible_result(type, ReduceOp::sum, 3, count);
      // In place of a source, with a byte beyond that must stay.
      std::vector<std::vector<char>> all;
      std::vector<const void*> sources;
      for (std::size_t who = 0; who < 3; ++who) {
        all.push_back(contribution_of(type, who, count));
        all.back().push_back('x');
      }
      for (const auto& each : all) sources.push_back(each.data() + 1);
      reduce_reproducibly(ReduceOp::sum, type, all[1].data() + 1, sources, count);
      ASSERT_TRUE(std::equal(want.begin(), want.end(), all[1].begin() + 1)) << count;
      ASSERT_EQ(all[1].back(), 'x');
    }
  }
}

// A thread may round, and treat subnormals, as it likes.
TEST_P(ReproducibleKernels, TheModeOfTheThreadDoesNotMatter) {
  for (const Type type : kFloatingTypes) {
    const auto all = contributions(type, 3, 300);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
      const Bits want = direct(op, type, all);
      std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
      _mm_setcsr(_mm_getcsr() | 0x8040);  // subnormals are zero, as operands and as results
#endif
      const Bits one = direct(op, type, all), other = by_steps(op, type, all);
      EXPECT_EQ(std::fegetround(), FE_UPWARD);
      std::fesetenv(FE_DFL_ENV);
      ASSERT_EQ(one, want) << name_of(op) << " of " << name_of(type);
      ASSERT_EQ(other, want) << name_of(op) << " of " << name_of(type);
    }
  }
}

TEST(Grid, HasRoomForEverySum) {
  for (const Type type : kFloatingTypes) {
    for (const int ranks : {1, 2, 3, 64, 65, 512, 513, 1000, Grid::kMostRanks}) {
      const Grid grid = grid_of(type, ranks);
      const double most = std::ldexp(static_cast<double>(ranks), grid.bits / grid.parts);
      EXPECT_LE(most, grid.narrow() ? 0x1p31 : 0x1p63) << name_of(type) << ", " << ranks;
      EXPECT_GT(grid.bits, format_of(type).mantissa + 1) << name_of(type) << ", " << ranks;
    }
    EXPECT_THROW((void)grid_of(type, Grid::kMostRanks + 1), UsageError);
  }
  EXPECT_TRUE(grid_of(Type::f32, 64).in_place());
  EXPECT_FALSE(grid_of(Type::f32, 65).in_place());
  EXPECT_TRUE(grid_of(Type::f64, 512).in_place());
  EXPECT_FALSE(grid_of(Type::bf16, 2).in_place());
}

}  // namespace
}  // namespace convoy::comm
