#include "convoy/model/randomness.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "model/randomness/normal.h"
#include "model/randomness/runs.h"

namespace convoy::model {
namespace {

thread_local const RandomScope* current_scope = nullptr;

// 52 random bits as the middle of one of 2^52 equal parts of (-0.5, 0.5), which is exact.
double centered(std::uint64_t bits) {
  const auto part = static_cast<std::int64_t>(bits >> 12) - (std::int64_t{1} << 51);
  return (static_cast<double>(part) + 0.5) * 0x1.0p-52;
}

}  // namespace

void fill(std::string_view name, const FirstValues& rule, std::uint64_t seed, std::int64_t begin,
          std::span<float> values) {
  const RandomStream stream(seed, number_of(name));
  const auto first = static_cast<std::uint64_t>(begin);
  switch (rule.rule) {
    case FirstValues::Rule::zeros:
      std::fill(values.begin(), values.end(), 0.0f);
      break;
    case FirstValues::Rule::ones:
      std::fill(values.begin(), values.end(), 1.0f);
      break;
    case FirstValues::Rule::uniform: {
      const double width = 2 * rule.scale;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(centered(stream.at(first + i)) * width);
      break;
    }
    case FirstValues::Rule::normal: {
      static const QuantileTable table;
      const double scale = rule.scale;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double u = centered(stream.at(first + i));
        const double z = table(0.5 - std::abs(u));  // an exact difference
        values[i] = static_cast<float>(std::copysign(z, u) * scale);
      }
      break;
    }
    case FirstValues::Rule::as_made:
      break;
  }
}

void fill(const Slice& part, const FirstValues& rule, std::uint64_t seed, std::span<float> values) {
  part.check();
  if (static_cast<std::int64_t>(values.size()) != part.elements()) {
    throw UsageError(part.text() + " has " + std::to_string(part.elements()) + " elements, not " +
                     std::to_string(values.size()));
  }
  std::size_t done = 0;
  for_each_run(part, [&](std::int64_t begin, std::int64_t size) {
    const auto count = static_cast<std::size_t>(size);
    fill(part.tensor, rule, seed, begin, values.subspan(done, count));
    done += count;
  });
}

DropoutMask::DropoutMask(std::uint64_t seed, std::uint64_t step, std::string_view layer,
                         double probability)
    : key_(RandomStream(seed, number_of(layer), step)()),
      threshold_(static_cast<std::uint64_t>(std::ceil(probability * 0x1.0p53))) {}

RandomScope::RandomScope(std::uint64_t seed, std::uint64_t step,
                         std::span<const std::size_t> samples)
    : seed_(seed), step_(step), samples_(samples), before_(current_scope) {
  current_scope = this;
}

RandomScope::~RandomScope() { current_scope = before_; }

const RandomScope* RandomScope::current() { return current_scope; }

}  // namespace convoy::model
