// The discrete Fourier transform.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace convoy::data {

// |X[k]|^2 of X[k] = sum over n of x[n] exp(-2 pi i k n / size). One thread at a time.
class PowerSpectrum {
 public:
  // A power of two, at least 2.
  explicit PowerSpectrum(std::size_t size);

  std::size_t size() const { return cosines_.size() * 2; }
  // k from 0 to size / 2, of x, after whose end come zeros up to `size`. Valid until the next call.
  std::span<const double> of(std::span<const double> x);

 private:
  std::vector<double> cosines_, sines_;  // of -2 pi k / size, k < size / 2
  std::vector<std::size_t> places_;      // of each element in the order that the sums begin with
  std::vector<double> real_, imaginary_;
  std::vector<double> power_;
};

}  // namespace convoy::data
