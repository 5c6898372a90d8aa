#include "convoy/plan/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/checks.h"
#include "plan/robust.h"

namespace convoy::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kFewestInWindow = 2;

NoiseWindow window_of(const std::vector<NoiseMeasurement>& all, std::size_t begin,
                      std::size_t end) {
  NoiseWindow window{all[begin].update, all[end - 1].update, static_cast<int>(end - begin)};
  for (std::size_t i = begin; i < end; ++i) {
    window.gradient_square += all[i].gradient_square / window.measurements;
    window.variance += all[i].variance / window.measurements;
  }
  return window;
}

// Of the updates that a window stands for: how many without noise they are worth, and the noise
// scale times that.
struct Worth {
  double progress = 0, noise = 0;
};

Worth worth_of(const NoiseWindow& window, double batch) {
  const double square = window.gradient_square + window.variance / batch;
  if (!(square > 0)) return {};  // nothing was learned there
  const double each = window.measurements / square;
  return {each * window.gradient_square, each * window.variance};
}

double quotient(const Worth& worth) {
  return worth.progress > 0 ? std::max(worth.noise, 0.0) / worth.progress : kInfinity;
}

void check_measurements(const std::vector<NoiseMeasurement>& measurements) {
  check_at_least("the number of measurements of noise",
                 static_cast<std::int64_t>(measurements.size()), kFewestNoiseMeasurements);
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    check_finite("a squared norm of the gradient", measurements[i].gradient_square);
    check_finite("a variance of the gradient", measurements[i].variance);
    if (i > 0 && measurements[i].update <= measurements[i - 1].update)
      throw UsageError("measurements of noise have to be in the order of updates");
  }
}

void judge(NoiseFit& fit) {
  const Interval& interval = fit.batch.interval;
  fit.trusted = interval.low > 0 && std::isfinite(interval.high);
  if (!(interval.low > 0)) {
    fit.warnings.emplace_back(
        "the noise is not surely above 0: measure it with more parts of a batch, or over more "
        "updates");
  }
  if (!std::isfinite(interval.high)) {
    fit.warnings.emplace_back(
        "the gradient is not surely above its noise: measure it with a larger batch, or over more "
        "updates");
  }
}

}  // namespace

double NoiseWindow::scale() const {
  if (!(variance > 0)) return 0;
  return gradient_square > 0 ? variance / gradient_square : kInfinity;
}

NoiseFit fit_noise(const std::vector<NoiseMeasurement>& measurements, double batch, double updates,
                   const NoiseOptions& options) {
  check_measurements(measurements);
  check_positive("the batch", batch);
  check_positive("the number of updates", updates);
  check_at_least("the number of windows", options.windows, 2);
  check(options.bootstrap);
  const std::size_t count =
      std::min(static_cast<std::size_t>(options.windows), measurements.size() / kFewestInWindow);
  NoiseFit fit;
  std::vector<Worth> worths;
  Worth sum;
  for (std::size_t i = 0; i < count; ++i) {
    fit.windows.push_back(window_of(measurements, measurements.size() * i / count,
                                    measurements.size() * (i + 1) / count));
    worths.push_back(worth_of(fit.windows.back(), batch));
    sum.progress += worths.back().progress;
    sum.noise += worths.back().noise;
  }
  fit.batch.value = quotient(sum);
  fit.law.updates_at_infinity = updates / (1 + fit.batch.value / batch);
  fit.law.noise_sensitivity = (updates - fit.law.updates_at_infinity) * batch;
  std::vector<double> draws;
  for (int round = 0; round < options.bootstrap.rounds; ++round) {
    RandomStream random(options.bootstrap.seed, number_of("noise"),
                        static_cast<std::uint64_t>(round));
    Worth drawn;
    for (std::size_t i = 0; i < count; ++i) {
      const Worth& worth = worths[draw_index(random, count)];
      drawn.progress += worth.progress;
      drawn.noise += worth.noise;
    }
    draws.push_back(quotient(drawn));
  }
  fit.batch.interval = interval_of(draws);
  judge(fit);
  return fit;
}

}  // namespace convoy::plan
