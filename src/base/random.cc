#include "convoy/base/random.h"

#include <numeric>
#include <utility>

namespace convoy {

// Each coordinate passes through the mixer before the next is added, so that (1, 2) and (2, 1) are
// unrelated streams.
RandomStream::RandomStream(std::uint64_t seed, std::uint64_t a, std::uint64_t b)
    : state_(mixed(mixed(mixed(seed + kGolden) + a + kGolden) + b + kGolden)) {}

std::uint64_t RandomStream::operator()() { return mixed(state_ += kGolden); }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // Values under 2^64 mod bound would make the small results likelier: draw again.
  const std::uint64_t unfair = (0 - bound) % bound;
  std::uint64_t value = (*this)();
  while (value < unfair) value = (*this)();
  return value % bound;
}

double RandomStream::uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

std::uint64_t number_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

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
