// This makes first weights and dropout's masks from counters: each number depends on what it is for
// alone, on no rank, thread, order, batch or partition. No Torch header.
//
// The numbers are the same on every machine and with every compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "convoy/base/random.h"
#include "convoy/base/slice.h"
#include "convoy/model/layers.h"

namespace convoy::model {

// Fills elements `begin` to begin + values.size() - 1, in C order, of a parameter of this name:
// each depends on (seed, name, its place) alone. They are float32 numbers, so that a network of a
// wider type starts as one of float32. Does nothing for Rule::as_made.
void fill(std::string_view name, const FirstValues& rule, std::uint64_t seed, std::int64_t begin,
          std::span<float> values);

// Fills the elements of a part, one after the other. Throws UsageError when there are not as many
// values.
void fill(const Slice& part, const FirstValues& rule, std::uint64_t seed, std::span<float> values);

// Says which units dropout keeps. A layer has one of these in a step.
class DropoutMask {
 public:
  // probability: of dropping a unit, in [0, 1).
  DropoutMask(std::uint64_t seed, std::uint64_t step, std::string_view layer, double probability);

  // Says of one sample whether its unit number u (in C order of the sample's shape, whatever the
  // memory layout) is kept.
  class Row {
   public:
    bool keeps(std::uint64_t unit) const { return (stream_.at(unit) >> 11) >= threshold_; }

   private:
    friend class DropoutMask;
    Row(RandomStream stream, std::uint64_t threshold) : stream_(stream), threshold_(threshold) {}
    RandomStream stream_;
    std::uint64_t threshold_;
  };
  Row of_sample(std::uint64_t sample) const { return {RandomStream(key_, sample), threshold_}; }

 private:
  std::uint64_t key_;
  std::uint64_t threshold_;  // of 2^53
};

// While one is alive, model::Dropout in training mode takes its masks on this thread from counters.
// The rows of what it gets belong to the samples, in this order: row r of n x samples.size() rows
// to sample r / n. The numbers of the samples stay the caller's, and valid. Scopes may be nested;
// the last one counts.
class RandomScope {
 public:
  RandomScope(std::uint64_t seed, std::uint64_t step, std::span<const std::size_t> samples);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  std::uint64_t seed() const { return seed_; }
  std::uint64_t step() const { return step_; }
  std::span<const std::size_t> samples() const { return samples_; }

  // Gives this thread's scope, or null.
  static const RandomScope* current();

 private:
  std::uint64_t seed_, step_;
  std::span<const std::size_t> samples_;
  const RandomScope* before_;
};

}  // namespace convoy::model
