#include "convoy/base/random.h"

#include <numeric>
#include <utility>

namespace convoy {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

// Each coordinate passes through the mixer before the next is added, so that (1, 2) and (2, 1) are
// unrelated streams.
RandomStream::RandomStream(std::uint64_t seed, std::uint64_t a, std::uint64_t b)
    : state_(mix(mix(mix(seed + kGolden) + a + kGolden) + b + kGolden)) {}

std::uint64_t RandomStream::operator()() { return mix(state_ += kGolden); }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // Values under 2^64 mod bound would make the small results likelier: draw again.
  const std::uint64_t unfair = (0 - bound) % bound;
  std::uint64_t value = (*this)();
  while (value < unfair) value = (*this)();
  return value % bound;
}

double RandomStream::uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  RandomStream random(seed, epoch);
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

}  // namespace convoy
