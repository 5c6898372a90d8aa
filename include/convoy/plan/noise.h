// This leads from the noise of gradients in one training to the batch that it names (McCandlish et
// al. 2018, An Empirical Model of Large-Batch Training). See law.h for threads and errors.
//
// The noise scale b is the trace of the covariance of one sample's gradient over the squared norm
// of the true gradient. Where the learning rate is the best one for each batch, an update with a
// batch of B is worth 1 / (1 + b/B) updates without noise (section 2.2). Summed over a training
// that takes N updates, with b changing on the way, that is equation 2 of law.h:
//   N_inf = sum of 1 / (1 + b/B),   alpha = sum of b / (1 + b/B),   N = N_inf + alpha/B,
// and alpha / N_inf, the mean of b over the progress of the training, is the batch that it names:
// one that takes twice as many updates as an endless one would.
//
// b is a quotient of two estimates that scatter, and the second can be negative; so both are
// averaged before they are divided. In the sums above 1 / (1 + b/B) is |G|^2 / (|G|^2 +
// tr(Sigma)/B), where the denominator is what the squared norm of a batch's gradient is on average:
// windows of consecutive measurements have means of all of them, and the sums are over windows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/plan/estimate.h"
#include "convoy/plan/law.h"

namespace convoy::plan {

// These are estimates without bias, of one update.
struct NoiseMeasurement {
  std::int64_t update = 0;
  double gradient_square = 0;  // |G|^2; may be negative
  double variance = 0;         // tr(Sigma); may be negative
};

// These are consecutive measurements, with their means.
struct NoiseWindow {
  std::int64_t first = 0, last = 0;  // updates
  int measurements = 0;
  double gradient_square = 0;  // means
  double variance = 0;

  // 0 where there is no noise, infinite where there is no gradient.
  double scale() const;
};

struct NoiseFit {
  std::vector<NoiseWindow> windows;
  Estimate batch;  // alpha / N_inf; can be infinite
  UpdateLaw law;   // what the training's own number of updates makes of it
  // Says whether batch is surely above 0 and finite. Warnings say why not.
  bool trusted = false;
  std::vector<std::string> warnings;  // one line each
};

struct NoiseOptions {
  int windows = 20;  // fewer where there are fewer than two measurements for each
  FitOptions bootstrap = {};
};

// Fits a training of `updates` with batches of `batch` (counted in whatever the measurements are),
// whose measurements come in order and at even distances. The interval is a bootstrap's: windows
// are drawn anew. Since windows differ by how far the training is, too, it is rather too wide.
// Throws UsageError for bad values, and for fewer than kFewestNoiseMeasurements.
NoiseFit fit_noise(const std::vector<NoiseMeasurement>& measurements, double batch, double updates,
                   const NoiseOptions& options = {});
inline constexpr std::size_t kFewestNoiseMeasurements = 10;

}  // namespace convoy::plan
