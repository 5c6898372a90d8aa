#include "model/randomness/normal.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace convoy::model {
namespace {

// A polynomial by Horner's rule, of the highest power first.
template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// The coefficients of AS 241: of numerators and denominators, the highest power first.
constexpr double kMiddleTop[] = {2.5090809287301226727e3, 3.3430575583588128105e4,
                                 6.7265770927008700853e4, 4.5921953931549871457e4,
                                 1.3731693765509461125e4, 1.9715909503065514427e3,
                                 1.3314166789178437745e2, 3.3871328727963666080e0};
constexpr double kMiddleBottom[] = {5.2264952788528545610e3, 2.8729085735721942674e4,
                                    3.9307895800092710610e4, 2.1213794301586595867e4,
                                    5.3941960214247511077e3, 6.8718700749205790830e2,
                                    4.2313330701600911252e1, 1.0};
constexpr double kTailTop[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                               2.41780725177450611770e-1, 1.27045825245236838258e0,
                               3.64784832476320460504e0,  5.76949722146069140550e0,
                               4.63033784615654529590e0,  1.42343711074968357734e0};
constexpr double kTailBottom[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                  1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                  6.89767334985100004550e-1, 1.67638483018380384940e0,
                                  2.05319162663775882187e0,  1.0};
constexpr double kFarTop[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                              1.24266094738807843860e-3, 2.65321895265761230930e-2,
                              2.96560571828504891230e-1, 1.78482653991729133580e0,
                              5.46378491116411436990e0,  6.65790464350110377720e0};
constexpr double kFarBottom[] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                 1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                 1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                 5.99832206555887937690e-1,  1.0};

// The natural logarithm of a normal number: ln m + e ln 2 with m in [0.7, 1.42), and
// ln m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| < 0.18. The
// library's log is another one on every system.
double logarithm(double x) {
  constexpr double kSeries[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  constexpr double kLn2 = 0.693147180559945309417;
  auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  return 2 * s * polynomial(kSeries, s * s) + static_cast<double>(exponent) * kLn2;
}

}  // namespace

double upper_quantile(double p) {
  if (p >= 0.075) {
    const double u = 0.5 - p, r = 0.180625 - u * u;
    return u * polynomial(kMiddleTop, r) / polynomial(kMiddleBottom, r);
  }
  const double r = std::sqrt(-logarithm(p));
  return r <= 5 ? polynomial(kTailTop, r - 1.6) / polynomial(kTailBottom, r - 1.6)
                : polynomial(kFarTop, r - 5) / polynomial(kFarBottom, r - 5);
}

QuantileTable::QuantileTable() {
  for (std::size_t i = 0; i < coefficients_.size(); ++i) {
    const auto bits = [&](std::size_t part) { return (kFirst + part) << kShift; };
    const auto begin = std::bit_cast<double>(bits(i)), end = std::bit_cast<double>(bits(i + 1));
    const double third = (end - begin) / 3;
    const double y0 = upper_quantile(begin), y1 = upper_quantile(begin + third),
                 y2 = upper_quantile(end - third), y3 = upper_quantile(end);
    coefficients_[i] = {y0, (18 * y1 - 11 * y0 - 9 * y2 + 2 * y3) / 2,
                        (2 * y0 - 5 * y1 + 4 * y2 - y3) * 4.5, (3 * (y1 - y2) + y3 - y0) * 4.5};
  }
}

}  // namespace convoy::model
