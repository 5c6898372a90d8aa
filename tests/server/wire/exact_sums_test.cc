#include "server/wire/exact_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "convoy/base/error.h"

namespace convoy::server {
namespace {

std::size_t goes_there_and_back(const ExactSum& sum) {
  Writer writer;
  write(writer, sum);
  Reader reader(writer.view(), "sum");
  EXPECT_EQ(read_exact_sum(reader), sum);
  reader.end();
  return writer.size();
}

TEST(ExactSums, TravelInFewBytes) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const double scale : {1.0, -1.0, 1e-200, -1e200}) {
    ExactSum sum;
    for (int i = 0; i < 1000; ++i)
      sum.add(scale * std::abs(normal(random)) * std::exp(normal(random)));
    EXPECT_LE(goes_there_and_back(sum), 40u) << scale;
    ExactSum with_both;
    for (int i = 0; i < 1000; ++i) with_both.add(scale * normal(random));
    goes_there_and_back(with_both);
  }
}

TEST(ExactSums, KeepTheRareOnes) {
  EXPECT_LE(goes_there_and_back({}), 4u);
  const double least = std::numeric_limits<double>::denorm_min();
  const double most = std::numeric_limits<double>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& terms : {std::vector<double>{-least},
                                           {least},
                                           {most, least},
                                           {-most, -least},
                                           {most, most},
                                           {-most, -most, least},
                                           {infinity},
                                           {infinity, -infinity},
                                           {-infinity, 1},
                                           {std::nan("")},
                                           {-4294967296.0 * least},
                                           {1, -1}}) {
    ExactSum sum;
    for (const double term : terms) sum.add(term);
    goes_there_and_back(sum);
  }
}

TEST(ExactSums, RefusesWhatNoSumHas) {
  const auto refused = [](const Bytes& bytes) {
    Reader reader(bytes, "sum");
    EXPECT_THROW(read_exact_sum(reader), UsageError);
  };
  refused({});
  refused({std::byte{3}});
  refused({std::byte{0}, std::byte{8}, std::byte{0}, std::byte{0}});   // no such specials
  refused({std::byte{0}, std::byte{0}, std::byte{60}, std::byte{8}});  // digits that aren't there
  refused({std::byte{0}, std::byte{0}, std::byte{200}, std::byte{200}});
  refused({std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{1}});
}

}  // namespace
}  // namespace convoy::server
