#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "convoy/base/error.h"

namespace {

using convoy::ExactSum;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  sum.add(values);
  return sum;
}

double random_double(std::mt19937_64& random, int least_exponent, int most_exponent) {
  const int exponent = std::uniform_int_distribution(least_exponent, most_exponent)(random);
  const double mantissa = std::uniform_real_distribution(1.0, 2.0)(random);
  return std::ldexp(random() % 2 == 0 ? mantissa : -mantissa, exponent);
}

TEST(ExactSum, LosesNothingThatCancels) {
  EXPECT_EQ(sum_of({1e300, 1, -1e300}).value(), 1);
  EXPECT_EQ(sum_of({1e16, 1, 1, 1, -1e16}).value(), 3);
  EXPECT_EQ(sum_of({kSmallest, 1, -1}).value(), kSmallest);
  EXPECT_EQ(sum_of({kLargest, kLargest, -kLargest, -kLargest, 2.5}).value(), 2.5);
  EXPECT_EQ(sum_of({-kLargest, -kLargest, kLargest}).value(), -kLargest);
  EXPECT_EQ(sum_of({}).value(), 0);
  EXPECT_FALSE(std::signbit(sum_of({-0.0, -0.0}).value()));
  EXPECT_FALSE(std::signbit(sum_of({-1, 1}).value()));
}

TEST(ExactSum, RoundsOnceToTheNearestAndToEven) {
  const double next = std::nextafter(1, 2), half = std::ldexp(1, -53);
  EXPECT_EQ(sum_of({1, half}).value(), 1);
  EXPECT_EQ(sum_of({1, half, kSmallest}).value(), next);
  EXPECT_EQ(sum_of({next, half}).value(), std::nextafter(next, 2));
  EXPECT_EQ(sum_of({next, half, -kSmallest}).value(), next);
  EXPECT_EQ(sum_of({-1, -half}).value(), -1);
  EXPECT_EQ(sum_of({-1, -half, -kSmallest}).value(), -next);
  EXPECT_EQ(sum_of({kLargest, std::ldexp(1, 969)}).value(), kLargest);
  EXPECT_EQ(sum_of({kLargest, std::ldexp(1, 970)}).value(), kInfinity);
  EXPECT_EQ(sum_of({-kLargest, -kLargest}).value(), -kInfinity);
  // The smallest numbers are sums of themselves.
  for (const double value : {kSmallest, 3 * kSmallest, std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::min() - kSmallest}) {
    EXPECT_EQ(sum_of({value}).value(), value);
    EXPECT_EQ(sum_of({-value}).value(), -value);
  }
}

TEST(ExactSum, RemembersWhatIsNotFinite) {
  const double nan = std::nan("");
  EXPECT_EQ(sum_of({1, kInfinity, 2}).value(), kInfinity);
  EXPECT_EQ(sum_of({1, -kInfinity, 2}).value(), -kInfinity);
  EXPECT_TRUE(std::isnan(sum_of({kInfinity, -kInfinity}).value()));
  EXPECT_TRUE(std::isnan(sum_of({1, nan}).value()));
  EXPECT_TRUE(std::isnan(sum_of({nan, nan, nan}).value()));
  EXPECT_TRUE(std::isnan(sum_of(std::vector<double>(5000, nan)).value()));
  // One among many, wherever it is.
  for (const std::size_t at : {0, 7, 1023, 1024, 2999}) {
    std::vector<double> values(3000, 0.5);
    values[at] = nan;
    EXPECT_TRUE(std::isnan(sum_of(values).value())) << at;
    values[at] = kInfinity;
    EXPECT_EQ(sum_of(values).value(), kInfinity) << at;
  }
}

// Numbers of exponents from -20 to 20 and their sums have fewer bits than __int128.
TEST(ExactSum, IsTheSumOfWholeNumbers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(random() % 3000);
    __int128 whole = 0;  // units of 2^-52
    for (double& value : values) {
      value = std::ldexp(std::trunc(std::ldexp(random_double(random, -20, 20), 52)), -52);
      whole += static_cast<__int128>(std::ldexp(value, 52));
    }
    // Below 2^104 units: rounding to long double and on to double could round twice, so compare the
    // rest.
    const double sum = sum_of(values).value();
    const __int128 rest = whole - static_cast<__int128>(std::ldexp(sum, 52));
    const double unit = std::nextafter(std::abs(sum), kInfinity) - std::abs(sum);
    EXPECT_LE(std::abs(static_cast<double>(rest)), std::ldexp(unit, 52) / 2);
  }
}

// The same bits in any order, in any pieces, one by one or in blocks.
TEST(ExactSum, DoesNotDependOnOrderOrPieces) {
  std::mt19937_64 random(7);
  for (const auto& [least, most] :
       {std::pair{-3, 3}, {-100, 100}, {-1074, 1023}, {-1074, -1000}, {900, 1023}}) {
    std::vector<double> values(5000);
    for (double& value : values) value = random_double(random, least, most);
    values[17] = 0;
    const ExactSum whole = sum_of(values);
    ExactSum one_by_one;
    for (const double value : values) one_by_one.add(value);
    EXPECT_EQ(one_by_one, whole);
    for (int round = 0; round < 5; ++round) {
      std::shuffle(values.begin(), values.end(), random);
      ExactSum merged;
      for (std::size_t begin = 0; begin < values.size();) {
        const std::size_t end = std::min(values.size(), begin + 1 + random() % 1500);
        ExactSum piece;
        piece.add(std::span(values).subspan(begin, end - begin));
        merged.add(piece);
        begin = end;
      }
      EXPECT_EQ(merged, whole);
      std::array<std::byte, ExactSum::kBytes> a{}, b{};
      merged.write(a);
      whole.write(b);
      EXPECT_EQ(a, b);
      EXPECT_EQ(ExactSum::read(a), whole);
      EXPECT_EQ(ExactSum::read(a).value(), whole.value());
    }
  }
}

TEST(ExactSum, HasRoomForManyOfTheLargest) {
  ExactSum sum;
  const std::vector<double> values(1024, kLargest);
  for (int i = 0; i < 200; ++i) sum.add(values);
  ExactSum back;
  for (int i = 0; i < 200; ++i) back.add(std::vector<double>(1024, -kLargest));
  back.add(0.25);
  sum.add(back);
  EXPECT_EQ(sum.value(), 0.25);
}

// More terms than are added between two carries, and as many as there is room for.
TEST(ExactSum, OfMoreTermsThanAnyVectorHas) {
  for (const int doublings : {32, 63}) {
    ExactSum many, back;
    many.add(kLargest);
    back.add(-kLargest);
    for (int i = 0; i < doublings; ++i) many.add(many), back.add(back);
    EXPECT_EQ(many.value(), kInfinity);
    EXPECT_EQ(back.value(), -kInfinity);
    std::array<std::byte, ExactSum::kBytes> bytes{};
    for (ExactSum* sum : {&many, &back}) {
      sum->write(bytes);
      EXPECT_EQ(ExactSum::read(bytes), *sum);
    }
    many.add(0.25);
    many.add(back);
    EXPECT_EQ(many.value(), 0.25) << doublings;
  }
}

template <typename T>
class ExactProducts : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ExactProducts, Types);

TYPED_TEST(ExactProducts, DoNotDependOnPieces) {
  using T = TypeParam;
  std::mt19937_64 random(11);
  // The last two leave the range of double with some of their products.
  for (const int range : {1, 20, 120, 400, 700}) {
    if (sizeof(T) == 4 && range > 120) continue;
    std::vector<T> a(3000), b(3000);
    for (T& value : a) value = static_cast<T>(random_double(random, -range, range / 2));
    for (T& value : b) value = static_cast<T>(random_double(random, -range, range / 2));
    ExactSum whole;
    whole.add_products(a.data(), b.data(), a.size());
    ExactSum merged;
    for (std::size_t begin = 0; begin < a.size();) {
      const std::size_t now = std::min<std::size_t>(a.size() - begin, 1 + random() % 700);
      ExactSum piece;
      piece.add_products(a.data() + begin, b.data() + begin, now);
      merged.add(piece);
      begin += now;
    }
    EXPECT_EQ(merged, whole) << range;
    ExactSum each;
    for (std::size_t i = a.size(); i-- > 0;) each.add_products(&a[i], &b[i], 1);
    EXPECT_EQ(each, whole) << range;
  }
}

// Factors that are too large to be split have their products computed in another way, with all
// others of their block.
TEST(ExactSum, ProductsAreTheSameWhereOthersAreLarge) {
  std::mt19937_64 random(13);
  std::vector<double> a(2000), b(2000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool large = i % 100 == 50;
    a[i] = random_double(random, large ? 500 : -480, large ? 640 : 480);
    b[i] = random_double(random, large ? -620 : -480, large ? 350 : 480);
  }
  ExactSum whole, each;
  whole.add_products(a.data(), b.data(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) each.add_products(&a[i], &b[i], 1);
  EXPECT_EQ(each, whole);
  EXPECT_TRUE(std::isfinite(whole.value()));
}

TYPED_TEST(ExactProducts, HaveAllTheirBits) {
  using T = TypeParam;
  const T third = T(1) / 3;
  // (1/3)^2 - 2 (1/3) (1/3) + (1/3)^2 is nothing, and each product needs twice the bits of a
  // number.
  const std::vector<T> a = {third, -2 * third, third}, b = {third, third, third};
  ExactSum sum;
  sum.add_products(a.data(), b.data(), a.size());
  EXPECT_EQ(sum.value(), 0);
  const T one = 1 + std::numeric_limits<T>::epsilon();
  const std::vector<T> c = {one, -1, -2 * std::numeric_limits<T>::epsilon()}, d = {one, 1, 1};
  ExactSum rest;
  rest.add_products(c.data(), d.data(), c.size());
  EXPECT_EQ(rest.value(), std::pow(static_cast<double>(std::numeric_limits<T>::epsilon()), 2));
}

TYPED_TEST(ExactProducts, RememberWhatIsNotFinite) {
  using T = TypeParam;
  for (const std::size_t at : {0, 900, 1999}) {
    std::vector<T> a(2000, T(0.5)), b(2000, T(3));
    a[at] = std::numeric_limits<T>::infinity();
    ExactSum infinite;
    infinite.add_products(a.data(), b.data(), a.size());
    EXPECT_EQ(infinite.value(), kInfinity);
    b[at] = 0;
    ExactSum none;
    none.add_products(a.data(), b.data(), a.size());
    EXPECT_TRUE(std::isnan(none.value()));
  }
}

TEST(ExactSum, BytesThatNoSumHasAreRefused) {
  std::array<std::byte, ExactSum::kBytes> bytes{};
  sum_of({1, 2}).write(bytes);
  auto broken = bytes;
  broken[7] = std::byte{0x80};  // a chunk below 0
  EXPECT_THROW(ExactSum::read(broken), convoy::Failure);
  broken = bytes;
  broken[4] = std::byte{1};  // or of more than 32 bits
  EXPECT_THROW(ExactSum::read(broken), convoy::Failure);
  broken = bytes;
  broken[ExactSum::kBytes - 1] = std::byte{1};
  EXPECT_THROW(ExactSum::read(broken), convoy::Failure);
  // The last chunk at its ends; the least one has no number of the other sign.
  for (const auto& [first, last] : {std::pair{0x80, 0}, {0x80, 1}, {0xc0, 0}, {0x40, 0}}) {
    broken = bytes;
    broken[ExactSum::kBytes - 9] = static_cast<std::byte>(first);
    broken[ExactSum::kBytes - 16] = static_cast<std::byte>(last);
    EXPECT_THROW(ExactSum::read(broken), convoy::Failure) << first << " " << last;
  }
  // Nor does it leave its range when many are added up.
  broken = bytes;
  broken[ExactSum::kBytes - 11] = std::byte{0x40};
  EXPECT_THROW(ExactSum::read(broken), convoy::Failure);
  broken[ExactSum::kBytes - 11] = std::byte{0x3f};
  ExactSum all;
  for (int i = 0; i < 1000; ++i) all.add(ExactSum::read(broken));
  EXPECT_EQ(all.value(), kInfinity);
}

}  // namespace
