// Measurements of a machine and a training whose true values are known.
#pragma once

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/plan/convergence.h"
#include "convoy/plan/machine_fit.h"
#include "convoy/plan/update_fit.h"

namespace convoy::plan::test {

// Scatter of mean 1.
using Noise = std::function<double(RandomStream&)>;

inline Noise log_normal(double scatter) {
  return [=](RandomStream& random) {
    const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
    const double z = radius * std::cos(2 * std::numbers::pi * random.uniform());
    return std::exp(scatter * z - scatter * scatter / 2);
  };
}

// Few rounds, where only the way they go matters.
inline const FitOptions kQuick{199, 1};

inline const Noise kExact = [](RandomStream&) { return 1.0; };

inline bool mentions(const std::vector<std::string>& warnings, const std::string& text) {
  for (const std::string& warning : warnings) {
    if (warning.find(text) != std::string::npos) return true;
  }
  return false;
}

// The waiting time for the last of so many events, as steps to a target are; scatter
// 1/sqrt(events).
inline Noise gamma_of(int events) {
  return [=](RandomStream& random) {
    double product = 1, sum = 0;
    for (int i = 0; i < events; ++i) {
      product *= 1 - random.uniform();
      if (product > 1e-280) continue;
      sum -= std::log(product);
      product = 1;
    }
    return (sum - std::log(product)) / events;
  };
}

struct Training {
  UpdateLaw law;
  std::vector<std::int64_t> batches;
  int seeds = 5;
  Noise noise;
  // Rates as multiples of the best one, which takes the law's updates; that grows as sqrt(M).
  std::vector<double> rates = {1};
  double cost_of_rate = 1;       // updates grow by exp(this * log(multiple)^2)
  std::int64_t limit = 1 << 30;  // of updates, of every run
  double stopped_at_random = 0;  // the part of runs that a budget stops somewhere

  std::vector<UpdateRun> runs(RandomStream& random) const {
    std::vector<UpdateRun> result;
    for (const std::int64_t batch : batches) {
      for (const double rate : rates) {
        const double mean = updates_to_target(law, static_cast<double>(batch)) *
                            std::exp(cost_of_rate * std::log(rate) * std::log(rate));
        for (int seed = 0; seed < seeds; ++seed) {
          UpdateRun run;
          run.batch = batch;
          run.learning_rate = 0.01 * rate * std::sqrt(static_cast<double>(batch));
          run.seed = static_cast<std::uint64_t>(seed);
          run.updates = static_cast<std::int64_t>(std::ceil(mean * noise(random)));
          std::int64_t stop = limit;
          if (random.uniform() < stopped_at_random) {
            stop = std::min(stop, static_cast<std::int64_t>(mean * (0.3 + random.uniform())));
          }
          if (run.updates > stop) {
            run.updates = stop;
            run.reached = false;
          }
          result.push_back(run);
        }
      }
    }
    return result;
  }
};

inline std::vector<TimeSample> times(const Machine& machine, const std::vector<std::int64_t>& sizes,
                                     int each, const Noise& noise, RandomStream& random) {
  std::vector<TimeSample> result;
  for (const std::int64_t size : sizes) {
    for (int i = 0; i < each; ++i) {
      result.push_back({size, compute_seconds(machine, static_cast<double>(size)) * noise(random)});
    }
  }
  return result;
}

inline std::vector<CommunicationSample> communication(const Communication& model,
                                                      const std::vector<std::int64_t>& workers,
                                                      int each, const Noise& noise,
                                                      RandomStream& random) {
  std::vector<CommunicationSample> result;
  for (const std::int64_t p : workers) {
    for (int i = 0; i < each; ++i) {
      result.push_back({p, communication_seconds(model, p) * noise(random)});
    }
  }
  return result;
}

}  // namespace convoy::plan::test
