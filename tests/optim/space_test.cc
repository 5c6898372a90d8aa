// Linear combinations of slices.
#include "convoy/optim/space.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace convoy::optim;

template <typename T>
auto bits_of(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<std::uint64_t>(value);
  } else {
    return std::bit_cast<std::uint32_t>(value);
  }
}

template <typename T>
std::vector<T> values(std::size_t count, int seed) {
  constexpr T kSpecial[] = {T(0), -T(0), std::numeric_limits<T>::infinity(),
                            std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max()};
  std::vector<T> made;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i + 1);
    made.push_back(i % 7 < 5 && seed == 0 ? kSpecial[i % 7]
                                          : static_cast<T>(std::sin(at * (seed + 1)) / at));
  }
  return made;
}

template <typename T>
void expect_sums() {
  const double factors[] = {-1.0 / 3, 2.5, -1e-3, 1e7};
  for (const std::size_t count : {0u, 1u, 2u, 3u, 511u, 512u, 513u, 1100u}) {
    std::vector<std::vector<T>> vectors;
    for (std::size_t terms = 0; terms <= 4; ++terms) {
      if (terms > 0) vectors.push_back(values<T>(count, static_cast<int>(terms) - 1));
      // Into memory of its own, and in the place of each of the vectors.
      for (std::size_t place = 0; place <= terms; ++place) {
        std::vector<std::vector<T>> mine = vectors;
        mine.emplace_back(count, T(7));
        T* into = place < terms ? mine[place].data() : mine.back().data();
        std::vector<const T*> from;
        for (std::size_t i = 0; i < terms; ++i) from.push_back(mine[i].data());
        combine_slices<T>({factors, terms}, from, into, count);
        for (std::size_t i = 0; i < count; ++i) {
          double sum = 0;
          for (std::size_t term = 0; term < terms; ++term) {
            const double product = factors[term] * static_cast<double>(vectors[term][i]);
            sum = term == 0 ? product : sum + product;
          }
          const T right = static_cast<T>(sum);
          if (std::isnan(right)) {
            ASSERT_TRUE(std::isnan(into[i]));
          } else {
            ASSERT_EQ(bits_of(into[i]), bits_of(right))
                << terms << " terms, " << count << ": " << i;
          }
        }
      }
    }
  }
}

TEST(Space, CombinesInDoubleInTheOrderOfTheTerms) {
  expect_sums<double>();
  expect_sums<float>();
}

TEST(Space, ACopyKeepsTheSignOfAZero) {
  const double factor = 1;
  const std::vector<float> from = {-0.0F, 0.0F, -0.0F};
  std::vector<float> into(3, 1.0F);
  const float* vectors[] = {from.data()};
  combine_slices<float>({&factor, 1}, vectors, into.data(), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(bits_of(into[i]), bits_of(from[i]));
}

}  // namespace
