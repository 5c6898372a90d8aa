// Learning rates and weight decay for another batch than the one that they were chosen for
// (Krizhevsky 2014, section 5). Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace convoy::train {

enum class RateRule : std::uint8_t {
  own,     // as they are
  linear,  // for a batch k times as large, k times the rate, and the same decay
  root     // sqrt(k) times the rate, and the decay that decays weights as much in the same samples
};

// "own", "linear" or "sqrt"; anything else is own.
RateRule rate_rule(const std::string& name);

// Gives what the rate is multiplied by for a batch k times as large.
double rate_scale(RateRule rule, double k);
// The weight decay w' for which one update with the rate r' = sqrt(k) r decays weights as k updates
// with r and w do: (1 - r w)^k = 1 - r' w'.
double decay_for_root(double rate, double decay, double k);

}  // namespace convoy::train
