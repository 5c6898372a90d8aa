#include "plan/robust.h"

#include <numbers>

#include "plan/checks.h"

namespace convoy::plan {
namespace {

double size_of(const Residuals& group) {
  return static_cast<double>(group.reached.size() + group.stopped.size());
}

double mean_size(const std::vector<Residuals>& residuals) {
  double count = 0, sum = 0;
  for (const Residuals& group : residuals) {
    count += size_of(group);
    sum += size_of(group) * group.u;
  }
  return sum / count;
}

}  // namespace

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

double scatter_trend(const std::vector<Residuals>& residuals) {
  constexpr double kSlope = 1.0903;    // of E psi(z exp(-t))^2 / E psi(z)^2, by -t
  constexpr double kSquares = 0.9027;  // the variance of psi(z)^2 / E psi(z)^2
  constexpr double kPrior = 1 / (0.1 * 0.1);
  const double mean = mean_size(residuals);
  double count = 0, spread = 0;
  for (const Residuals& group : residuals) {
    count += size_of(group);
    spread += size_of(group) * (group.u - mean) * (group.u - mean);
  }
  double level = 0, trend = 0;
  for (int i = 0; i < 100; ++i) {
    double g0 = 0, g1 = 0;
    for (const Residuals& group : residuals) {
      const double unit = std::exp(-level - trend * (group.u - mean));
      double excess = 0;
      for (const double r : group.reached) {
        excess += huber(r * unit) * huber(r * unit) / kMeanSquare - 1;
      }
      for (const double r : group.stopped) {
        excess += censored_score(r * unit).square / kMeanSquare - 1;
      }
      g0 += excess;
      g1 += excess * (group.u - mean);
    }
    const double weight = kSlope / kSquares;
    const double step0 = std::clamp(g0 / (kSlope * count), -0.5, 0.5);
    const double step1 =
        std::clamp((weight * g1 - kPrior * trend) / (weight * kSlope * spread + kPrior), -0.1, 0.1);
    level += step0;
    trend += step1;
    if (std::abs(step0) < 1e-10 && std::abs(step1) < 1e-10) break;
  }
  return trend;
}

std::vector<double> scatter_scales(const std::vector<Residuals>& residuals, double trend) {
  std::vector<double> scales;
  const double mean = mean_size(residuals);
  for (const Residuals& group : residuals) scales.push_back(std::exp(trend * (group.u - mean)));
  return scales;
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
