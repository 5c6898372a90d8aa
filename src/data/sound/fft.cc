// Cooley and Tukey's algorithm of radix 2: transforms of 2, 4, 8, ... elements, each of two of the
// half size, in place, from the order in which the bits of the places are reversed.
#include "data/sound/fft.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace convoy::data {

PowerSpectrum::PowerSpectrum(std::size_t size)
    : places_(size), real_(size), imaginary_(size), power_(size / 2 + 1) {
  if (size < 2 || !std::has_single_bit(size))
    throw std::logic_error("a transform of " + std::to_string(size) + " elements");
  for (std::size_t k = 0; k < size / 2; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size);
    cosines_.push_back(std::cos(angle));
    sines_.push_back(std::sin(angle));
  }
  for (std::size_t i = 1; i < size; ++i)
    places_[i] = places_[i / 2] / 2 + (i % 2 == 1 ? size / 2 : 0);
}

std::span<const double> PowerSpectrum::of(std::span<const double> x) {
  const std::size_t size = real_.size();
  if (x.size() > size) throw std::logic_error("more elements than the transform has");
  for (std::size_t i = 0; i < size; ++i) {
    real_[places_[i]] = i < x.size() ? x[i] : 0;
    imaginary_[i] = 0;
  }
  for (std::size_t length = 2; length <= size; length *= 2) {
    const std::size_t half = length / 2, stride = size / length;
    for (std::size_t begin = 0; begin < size; begin += length) {
      for (std::size_t k = 0; k < half; ++k) {
        const std::size_t a = begin + k, b = a + half;
        const double c = cosines_[k * stride], s = sines_[k * stride];
        const double real = c * real_[b] - s * imaginary_[b];
        const double imaginary = c * imaginary_[b] + s * real_[b];
        real_[b] = real_[a] - real;
        imaginary_[b] = imaginary_[a] - imaginary;
        real_[a] += real;
        imaginary_[a] += imaginary;
      }
    }
  }
  for (std::size_t k = 0; k < power_.size(); ++k)
    power_[k] = real_[k] * real_[k] + imaginary_[k] * imaginary_[k];
  return power_;
}

}  // namespace convoy::data
