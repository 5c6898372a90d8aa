#include "train/strategies/hybrid/rates.h"

#include <cmath>

namespace convoy::train {

RateRule rate_rule(const std::string& name) {
  if (name == "linear") return RateRule::linear;
  return name == "sqrt" ? RateRule::root : RateRule::own;
}

double rate_scale(RateRule rule, double k) {
  if (rule == RateRule::linear) return k;
  return rule == RateRule::root ? std::sqrt(k) : 1;
}

double decay_for_root(double rate, double decay, double k) {
  if (rate * decay == 0) return decay * std::sqrt(k);  // what it tends to
  // 1 - (1 - x)^k, of which little is left where x is small.
  return -std::expm1(k * std::log1p(-rate * decay)) / (std::sqrt(k) * rate);
}

}  // namespace convoy::train
