#include "data/sound/filter_bank.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <string>

#include "base/toml_text.h"
#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr int kMostFilters = 4096;
constexpr double kLongest = 1;  // second

void expect(bool holds, const std::string& what) {
  if (!holds) throw UsageError("filter bank: " + what);
}

const FilterBankOptions& checked(const FilterBankOptions& o, int rate) {
  check(o);
  expect(o.window_s * rate >= 2,
         "frames of " + shortest(o.window_s * 1000) + " ms have fewer than two samples");
  expect(o.step_s * rate >= 1,
         "a step of " + shortest(o.step_s * 1000) + " ms is shorter than a sample");
  const double half = rate / 2.0, high = o.high_hz == 0 ? half : o.high_hz;
  expect(o.low_hz < high && high <= half,
         "filters from " + shortest(o.low_hz) + " to " + shortest(high) +
             " Hz; they have to lie between 0 and half the sampling rate, " + shortest(half));
  return o;
}

std::size_t samples_in(double seconds, int rate) {
  return static_cast<std::size_t>(std::lround(seconds * rate));
}

double mel(double hz) { return 1127 * std::log1p(hz / 700); }

std::vector<double> window_of(FilterBankOptions::Window kind, std::size_t size) {
  const double base = kind == FilterBankOptions::Window::hamming ? 0.54 : 0.5;
  std::vector<double> window(size);
  for (std::size_t i = 0; i < size; ++i) {
    const double turn = static_cast<double>(i) / static_cast<double>(size - 1);
    window[i] = base - (1 - base) * std::cos(2 * std::numbers::pi * turn);
  }
  return window;
}

}  // namespace

void check(const FilterBankOptions& o) {
  expect(o.filters >= 1 && o.filters <= kMostFilters,
         std::to_string(o.filters) + " filters; there can be 1 to " + std::to_string(kMostFilters));
  expect(o.window_s > 0 && o.window_s <= kLongest, "frames of " + shortest(o.window_s * 1000) +
                                                       " ms; they can be two samples to " +
                                                       shortest(kLongest) + " s long");
  expect(o.step_s > 0 && o.step_s <= kLongest, "a step of " + shortest(o.step_s * 1000) +
                                                   " ms; it can be one sample to " +
                                                   shortest(kLongest) + " s");
  expect(o.preemphasis >= 0 && o.preemphasis < 1,
         "a pre-emphasis of " + shortest(o.preemphasis) + "; it has to be from 0 to less than 1");
  expect(o.floor > 0 && std::isfinite(o.floor),
         "a floor of " + shortest(o.floor) + "; it has to be above 0");
  expect(o.low_hz >= 0 && std::isfinite(o.low_hz) && o.high_hz >= 0 && std::isfinite(o.high_hz) &&
             (o.high_hz == 0 || o.low_hz < o.high_hz),
         "filters from " + shortest(o.low_hz) + " to " +
             (o.high_hz == 0 ? "half the sampling rate" : shortest(o.high_hz) + " Hz") +
             "; both have to be finite and at least 0, and the first one the less");
}

FilterBank::FilterBank(const FilterBankOptions& options, int rate)
    : preemphasis_(checked(options, rate).preemphasis),
      floor_(options.floor),
      step_(samples_in(options.step_s, rate)),
      window_(window_of(options.window, samples_in(options.window_s, rate))),
      spectrum_(std::bit_ceil(window_.size())),
      filters_(static_cast<std::size_t>(options.filters)) {
  make_filters(options.low_hz, options.high_hz == 0 ? rate / 2.0 : options.high_hz, rate);
}

// Triangles over the Mel scale, each from the middle of the one before to that of the next.
void FilterBank::make_filters(double low_hz, double high_hz, int rate) {
  const double low = mel(low_hz);
  const double width = (mel(high_hz) - low) / static_cast<double>(filters_.size() + 1);
  const double between = rate / static_cast<double>(spectrum_.size());
  std::vector<double> places;  // of the frequencies, in filters: 0 where the first one begins
  for (std::size_t k = 0; k <= spectrum_.size() / 2; ++k)
    places.push_back((mel(static_cast<double>(k) * between) - low) / width);
  for (std::size_t m = 0; m < filters_.size(); ++m) {
    Filter& filter = filters_[m];
    for (std::size_t k = 0; k < places.size(); ++k) {
      // From 0 to 2 within the triangle, 1 at its top.
      const double weight = 1 - std::abs(places[k] - static_cast<double>(m) - 1);
      if (weight <= 0) continue;
      if (filter.weights.empty()) filter.first = k;
      filter.weights.push_back(weight);
    }
    expect(!filter.weights.empty(),
           "of " + std::to_string(filters_.size()) + " filters, number " + std::to_string(m) +
               " is narrower than the " + shortest(between) +
               " Hz between two frequencies of the transform (of " +
               std::to_string(spectrum_.size()) +
               " samples): fewer filters, longer frames, or a higher low_hz");
  }
}

std::size_t FilterBank::frames(std::size_t samples) const {
  return samples < window() ? 0 : 1 + (samples - window()) / step_;
}

std::vector<float> FilterBank::energies(std::span<const float> samples) {
  const std::size_t count = frames(samples.size());
  std::vector<float> result;
  result.reserve(count * filters());
  std::vector<double> frame(window());
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t i = 0; i < frame.size(); ++i) {
      const std::size_t n = t * step_ + i;
      const double before = n == 0 ? 0 : samples[n - 1];
      frame[i] = window_[i] * (samples[n] - preemphasis_ * before);
    }
    const std::span<const double> power = spectrum_.of(frame);
    for (const Filter& filter : filters_) {
      double energy = 0;
      for (std::size_t k = 0; k < filter.weights.size(); ++k)
        energy += filter.weights[k] * power[filter.first + k];
      result.push_back(static_cast<float>(std::log(std::max(energy, floor_))));
    }
  }
  return result;
}

}  // namespace convoy::data
