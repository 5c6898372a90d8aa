#include "plan/robust.h"

#include <numbers>

#include "plan/checks.h"

namespace convoy::plan {

double normal_density(double z) {
  return std::exp(-z * z / 2) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

double normal_above(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

double normal_draw(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

CensoredScore censored_score(double c) {
  if (c >= kHuber) return {kHuber, kHuber * kHuber, 0};
  // Integrals of psi and psi^2 times the density, from c on.
  const double above = normal_above(kHuber);
  const double here = normal_above(c);
  const double edge = normal_density(kHuber);
  const double density = normal_density(c);
  const auto second = [](double from, double to, double p_from, double p_to) {
    return normal_above(from) - normal_above(to) + from * p_from - to * p_to;
  };
  CensoredScore score{};
  if (c > -kHuber) {
    score.score = (density - edge + kHuber * above) / here;
    score.square = (second(c, kHuber, density, edge) + kHuber * kHuber * above) / here;
  } else {
    score.score = kHuber * (1 - here) / here;
    const double below = normal_above(-kHuber) - here;  // negative: between c and -kHuber
    score.square = (kHuber * kHuber * (above - below) + second(-kHuber, kHuber, edge, edge)) / here;
  }
  score.slope = density / here * (score.score - huber(c));
  return score;
}

double normal_draw_above(double c, RandomStream& random) {
  if (c < 0.3) {
    double z = normal_draw(random);
    while (z <= c) z = normal_draw(random);
    return z;
  }
  // Robert (1995): an exponential tail, accepted where it is above the normal one.
  const double rate = (c + std::sqrt(c * c + 4)) / 2;
  while (true) {
    const double z = c - std::log1p(-random.uniform()) / rate;
    if (random.uniform() <= std::exp(-(z - rate) * (z - rate) / 2)) return z;
  }
}

double misfit(std::span<const double> residuals, std::span<const std::size_t> group_ends) {
  double between = 0, within = 0;
  std::size_t begin = 0;
  for (const std::size_t end : group_ends) {
    const double count = static_cast<double>(end - begin);
    double sum = 0, squares = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += residuals[i];
      squares += residuals[i] * residuals[i];
    }
    begin = end;
    if (count == 0) continue;
    between += sum * sum / count;
    within += squares - sum * sum / count;
  }
  return within > 0 ? between / within : 0;
}

double probability_of(double statistic, const std::vector<double>& rounds) {
  const auto as_large =
      std::count_if(rounds.begin(), rounds.end(), [&](double value) { return value >= statistic; });
  return static_cast<double>(1 + as_large) / static_cast<double>(1 + rounds.size());
}

void check(const FitOptions& options) {
  check_at_least("the number of bootstrap rounds", options.rounds, 39);
}

Interval interval_of(std::vector<double> draws) {
  check_at_least("the number of draws", static_cast<std::int64_t>(draws.size()), 39);
  for (const double draw : draws) {
    if (std::isnan(draw)) throw UsageError("a draw is nan; draws must be numbers");
  }
  // Of n draws and the truth, all equally likely at any place: n + 1 gaps.
  const std::size_t place = (draws.size() + 1) / 40;
  const auto low = draws.begin() + static_cast<std::ptrdiff_t>(place - 1);
  std::nth_element(draws.begin(), low, draws.end());
  const double lowest = *low;
  const auto high = draws.end() - static_cast<std::ptrdiff_t>(place);
  std::nth_element(draws.begin(), high, draws.end());
  return {lowest, *high};
}

}  // namespace convoy::plan
