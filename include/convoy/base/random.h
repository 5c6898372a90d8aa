// Random numbers that are the same on every machine, compiler and number of ranks.
//
// The standard library fixes its generators but not its distributions or std::shuffle; a resumed
// epoch has to replay the same order elsewhere, so Convoy brings the few it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace convoy {

// SplitMix64 over a counter: a stream is fully determined by its seed, and any number of streams
// (one per (seed, epoch, sample), say) can be made for the cost of two multiplications each. Not
// for cryptography. Copies are independent. Satisfies UniformRandomBitGenerator.
class RandomStream {
 public:
  using result_type = std::uint64_t;

  explicit RandomStream(std::uint64_t seed, std::uint64_t a = 0, std::uint64_t b = 0);

  std::uint64_t operator()();
  // Gives what the call after `index` others from here would give: numbers by their place, in any
  // order.
  std::uint64_t at(std::uint64_t index) const { return mixed(state_ + (index + 1) * kGolden); }
  // Uniform in [0, bound), without modulo bias. bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1), 53 random bits.
  double uniform();

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return std::numeric_limits<std::uint64_t>::max(); }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

// Gives a number for a name, to make streams of (FNV-1a, 64 bits).
std::uint64_t number_of(std::string_view name);

// Gives the numbers 0 .. count-1 in an order that (seed, epoch) alone decides: a Fisher-Yates
// shuffle.
std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace convoy
