#include "tests/optim/problems.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace convoy::optim::test {
namespace {

// A number and its derivatives by all variables.
struct Dual {
  double value = 0;
  std::vector<double> slopes;

  Dual(double constant) : value(constant) {}  // NOLINT: constants are numbers
  Dual(double at, std::vector<double> by) : value(at), slopes(std::move(by)) {}
};

Dual chain(const Dual& a, double value, double slope) {
  Dual result{value, a.slopes};
  for (double& by : result.slopes) by *= slope;
  return result;
}

Dual chain(const Dual& a, const Dual& b, double value, double by_a, double by_b) {
  Dual result = chain(a, value, by_a);
  result.slopes.resize(std::max(a.slopes.size(), b.slopes.size()));
  for (std::size_t i = 0; i < b.slopes.size(); ++i) result.slopes[i] += by_b * b.slopes[i];
  return result;
}

Dual operator+(const Dual& a, const Dual& b) { return chain(a, b, a.value + b.value, 1, 1); }
Dual operator-(const Dual& a, const Dual& b) { return chain(a, b, a.value - b.value, 1, -1); }
Dual operator-(const Dual& a) { return chain(a, -a.value, -1); }
Dual operator*(const Dual& a, const Dual& b) {
  return chain(a, b, a.value * b.value, b.value, a.value);
}
Dual operator/(const Dual& a, const Dual& b) {
  return chain(a, b, a.value / b.value, 1 / b.value, -a.value / (b.value * b.value));
}
Dual exp(const Dual& a) { return chain(a, std::exp(a.value), std::exp(a.value)); }
Dual sin(const Dual& a) { return chain(a, std::sin(a.value), std::cos(a.value)); }
Dual cos(const Dual& a) { return chain(a, std::cos(a.value), -std::sin(a.value)); }
Dual sqrt(const Dual& a) { return chain(a, std::sqrt(a.value), 0.5 / std::sqrt(a.value)); }
Dual atan(const Dual& a) { return chain(a, std::atan(a.value), 1 / (1 + a.value * a.value)); }

using Duals = std::vector<Dual>;
using Residuals = std::function<Duals(const Duals&)>;

Dual square(const Dual& a) { return a * a; }
Dual power(const Dual& a, int exponent) {
  return exponent == 0 ? Dual(1) : a * power(a, exponent - 1);
}

Problem problem(std::string name, double minimum, Residuals residuals, double other_minimum = 0) {
  const auto loss = [residuals = std::move(residuals)](const std::vector<double>& at) {
    Duals x;
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::vector<double> by(at.size());
      by[i] = 1;
      x.emplace_back(at[i], std::move(by));
    }
    Loss sum{0, std::vector<double>(at.size())};
    for (const Dual& r : residuals(x)) {
      sum.value += r.value * r.value;
      for (std::size_t i = 0; i < r.slopes.size(); ++i)
        sum.gradient[i] += 2 * r.value * r.slopes[i];
    }
    return sum;
  };
  return {std::move(name), minimum, other_minimum, loss};
}

Duals rosenbrock_residuals(const Duals& x) {
  Duals r;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    r.push_back(10 * (x[i + 1] - square(x[i])));
    r.push_back(1 - x[i]);
  }
  return r;
}

Duals powell_singular(const Duals& x) {
  Duals r;
  for (std::size_t i = 0; i < x.size(); i += 4) {
    r.push_back(x[i] + 10 * x[i + 1]);
    r.push_back(std::sqrt(5) * (x[i + 2] - x[i + 3]));
    r.push_back(square(x[i + 1] - 2 * x[i + 2]));
    r.push_back(std::sqrt(10) * square(x[i] - x[i + 3]));
  }
  return r;
}

Duals freudenstein_roth(const Duals& x) {
  return {-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
          -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]};
}

Duals beale(const Duals& x) {
  return {1.5 - x[0] * (1 - x[1]), 2.25 - x[0] * (1 - power(x[1], 2)),
          2.625 - x[0] * (1 - power(x[1], 3))};
}

Duals jennrich_sampson(const Duals& x) {
  Duals r;
  for (int i = 1; i <= 10; ++i) r.push_back(2 + 2 * i - (exp(i * x[0]) + exp(i * x[1])));
  return r;
}

Duals helical_valley(const Duals& x) {
  const Dual theta = atan(x[1] / x[0]) / (2 * std::numbers::pi) + (x[0].value < 0 ? 0.5 : 0);
  return {10 * (x[2] - 10 * theta), 10 * (sqrt(square(x[0]) + square(x[1])) - 1), x[2]};
}

Duals bard(const Duals& x) {
  constexpr double y[] = {.14, .18, .22, .25, .29,  .32,  .35, .39,
                          .37, .58, .73, .96, 1.34, 2.10, 4.39};
  Duals r;
  for (int u = 1; u <= 15; ++u) {
    const int v = 16 - u;
    r.push_back(y[u - 1] - (x[0] + u / (v * x[1] + std::min(u, v) * x[2])));
  }
  return r;
}

Duals gaussian(const Duals& x) {
  constexpr double y[] = {.0009, .0044, .0175, .0540, .1295, .2420, .3521, .3989,
                          .3521, .2420, .1295, .0540, .0175, .0044, .0009};
  Duals r;
  for (int i = 1; i <= 15; ++i)
    r.push_back(x[0] * exp(-x[1] * square((8 - i) / 2.0 - x[2]) / 2) - y[i - 1]);
  return r;
}

Duals box(const Duals& x) {
  Duals r;
  for (int i = 1; i <= 10; ++i) {
    const double t = i / 10.0;
    r.push_back(exp(-t * x[0]) - exp(-t * x[1]) - x[2] * (std::exp(-t) - std::exp(-10 * t)));
  }
  return r;
}

Duals wood(const Duals& x) {
  return {10 * (x[1] - square(x[0])),
          1 - x[0],
          std::sqrt(90) * (x[3] - square(x[2])),
          1 - x[2],
          std::sqrt(10) * (x[1] + x[3] - 2),
          (x[1] - x[3]) / std::sqrt(10)};
}

Duals kowalik_osborne(const Duals& x) {
  constexpr double y[] = {.1957, .1947, .1735, .1600, .0844, .0627,
                          .0456, .0342, .0323, .0235, .0246};
  constexpr double u[] = {4, 2, 1, .5, .25, .167, .125, .1, .0833, .0714, .0625};
  Duals r;
  for (int i = 0; i < 11; ++i) {
    r.push_back(y[i] - x[0] * (u[i] * u[i] + u[i] * x[1]) / (u[i] * u[i] + u[i] * x[2] + x[3]));
  }
  return r;
}

Duals brown_dennis(const Duals& x) {
  Duals r;
  for (int i = 1; i <= 20; ++i) {
    const double t = i / 5.0;
    r.push_back(square(x[0] + t * x[1] - std::exp(t)) +
                square(x[2] + x[3] * std::sin(t) - std::cos(t)));
  }
  return r;
}

Duals biggs_exp6(const Duals& x) {
  Duals r;
  for (int i = 1; i <= 13; ++i) {
    const double t = i / 10.0;
    const double y = std::exp(-t) - 5 * std::exp(-10 * t) + 3 * std::exp(-4 * t);
    r.push_back(x[2] * exp(-t * x[0]) - x[3] * exp(-t * x[1]) + x[5] * exp(-t * x[4]) - y);
  }
  return r;
}

Duals watson(const Duals& x) {
  Duals r;
  for (int i = 1; i <= 29; ++i) {
    const double t = i / 29.0;
    Dual first = 0, second = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (j > 0) first = first + static_cast<double>(j) * std::pow(t, j - 1) * x[j];
      second = second + std::pow(t, j) * x[j];
    }
    r.push_back(first - square(second) - 1);
  }
  r.push_back(x[0]);
  r.push_back(x[1] - square(x[0]) - 1);
  return r;
}

Duals penalty(const Duals& x) {
  Duals r;
  Dual squares = 0;
  for (const Dual& each : x) {
    r.push_back(std::sqrt(1e-5) * (each - 1));
    squares = squares + square(each);
  }
  r.push_back(squares - 0.25);
  return r;
}

Duals variably_dimensioned(const Duals& x) {
  Duals r;
  Dual sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.push_back(x[i] - 1);
    sum = sum + static_cast<double>(i + 1) * (x[i] - 1);
  }
  r.push_back(sum);
  r.push_back(square(sum));
  return r;
}

Duals trigonometric(const Duals& x) {
  Dual sum = static_cast<double>(x.size());
  for (const Dual& each : x) sum = sum - cos(each);
  Duals r;
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.push_back(sum + static_cast<double>(i + 1) * (1 - cos(x[i])) - sin(x[i]));
  }
  return r;
}

Duals broyden_tridiagonal(const Duals& x) {
  Duals r;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Dual before = i == 0 ? Dual(0) : x[i - 1];
    const Dual behind = i + 1 == x.size() ? Dual(0) : x[i + 1];
    r.push_back((3 - 2 * x[i]) * x[i] - before - 2 * behind + 1);
  }
  return r;
}

}  // namespace

std::vector<Problem> problems() {
  return {
      problem("rosenbrock", 0, rosenbrock_residuals),
      problem("freudenstein_roth", 0, freudenstein_roth, 48.98425368),
      problem("powell_badly_scaled", 0,
              [](const Duals& x) {
                return Duals{1e4 * x[0] * x[1] - 1, exp(-x[0]) + exp(-x[1]) - 1.0001};
              }),
      problem("brown_badly_scaled", 0,
              [](const Duals& x) {
                return Duals{x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2};
              }),
      problem("beale", 0, beale),
      problem("jennrich_sampson", 124.3621824, jennrich_sampson),
      problem("helical_valley", 0, helical_valley),
      problem("bard", 8.214877307e-3, bard),
      problem("gaussian", 1.127932770e-8, gaussian),
      problem("box", 0, box),
      problem("powell_singular", 0, powell_singular),
      problem("wood", 0, wood),
      problem("kowalik_osborne", 3.075056039e-4, kowalik_osborne),
      problem("brown_dennis", 85822.20163, brown_dennis),
      problem("biggs_exp6", 0, biggs_exp6, 5.655649925e-3),
      problem("watson", 2.287670054e-3, watson),
      problem("extended_rosenbrock", 0, rosenbrock_residuals),
      problem("extended_powell", 0, powell_singular),
      problem("penalty", 7.087651467e-5, penalty),
      problem("variably_dimensioned", 0, variably_dimensioned),
      problem("trigonometric", 0, trigonometric, 2.795061345e-5),
      problem("broyden_tridiagonal", 0, broyden_tridiagonal),
  };
}

}  // namespace convoy::optim::test
