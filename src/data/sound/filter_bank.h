// Log Mel filter-bank energies of a recording.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convoy/data/speech.h"
#include "data/sound/fft.h"

namespace convoy::data {

// Throws UsageError for options that make no sense at any sampling rate.
void check(const FilterBankOptions& options);

// One thread at a time.
class FilterBank {
 public:
  // Is for recordings of `rate` samples per second. Throws UsageError for options that make no
  // sense with it, and for filters so narrow that no frequency of the transform lies in one of
  // them.
  FilterBank(const FilterBankOptions& options, int rate);

  std::size_t filters() const { return filters_.size(); }
  // Samples of a frame.
  std::size_t window() const { return window_.size(); }
  // Counts the frames that begin, and end, within so many samples.
  std::size_t frames(std::size_t samples) const;

  // [frames][filters]
  std::vector<float> energies(std::span<const float> samples);

 private:
  struct Filter {
    std::size_t first = 0;  // frequency of the transform
    std::vector<double> weights;
  };

  void make_filters(double low_hz, double high_hz, int rate);

  double preemphasis_, floor_;
  std::size_t step_;
  std::vector<double> window_;
  PowerSpectrum spectrum_;
  std::vector<Filter> filters_;
};

}  // namespace convoy::data
