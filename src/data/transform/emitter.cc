#include "data/transform/emitter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/transform/kernels.h"

namespace convoy::data {
namespace {

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f);
}

}  // namespace

Emitter::Emitter(const Shape& shape, const std::vector<float>& mean,
                 const std::vector<float>& deviation, Pixel pixel)
    : shape_(shape), pixel_(pixel) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto width = static_cast<std::size_t>(shape.width);
  const auto of_channel = [](const std::vector<float>& values, std::size_t c) {
    return values.size() == 1 ? values[0] : values[c];
  };
  for (std::size_t c = 0; c < channels; ++c) {
    mean_.push_back(of_channel(mean, c));
    deviation_.push_back(of_channel(deviation, c));
    scale_.push_back(static_cast<float>(1 / (255.0 * deviation_[c])));
    bias_.push_back(static_cast<float>(-static_cast<double>(mean_[c]) / deviation_[c]));
    plane_scale_.insert(plane_scale_.end(), width, scale_[c]);
    plane_bias_.insert(plane_bias_.end(), width, bias_[c]);
  }
  for (std::size_t x = 0; x < width; ++x) {
    row_scale_.insert(row_scale_.end(), scale_.begin(), scale_.end());
    row_bias_.insert(row_bias_.end(), bias_.begin(), bias_.end());
  }
  values_.resize(width * channels);
}

void Emitter::begin(Layout layout, const ColorMap* color, std::byte* out) {
  layout_ = layout;
  color_ = color;
  out_ = out;
}

// Values of the output from element `at` on.
void Emitter::put(const float* values, std::size_t count, std::size_t at) {
  if (pixel_ == Pixel::f32) {
    std::memcpy(out_ + at * sizeof(float), values, count * sizeof(float));
  } else {
    shorten(values, count, reinterpret_cast<std::uint16_t*>(out_) + at);
  }
}

void Emitter::row(int y, const std::uint8_t* pixels, std::size_t stride) {
  if (color_ != nullptr) return colored(y, pixels, stride);
  const auto width = static_cast<std::size_t>(shape_.width);
  const auto channels = static_cast<std::size_t>(shape_.channels);
  const auto row = static_cast<std::size_t>(y);
  const auto part = [&](const std::uint8_t* from, const float* scale, const float* bias,
                        std::size_t period, std::size_t count, std::size_t at) {
    if (pixel_ == Pixel::u8) {
      std::memcpy(out_ + at, from, count);
    } else if (pixel_ == Pixel::f32) {
      normalize(from, scale, bias, period, count, reinterpret_cast<float*>(out_) + at);
    } else {
      normalize(from, scale, bias, period, count, values_.data());
      put(values_.data(), count, at);
    }
  };
  if (layout_ == Layout::channels_last) {
    const std::size_t count = width * channels;
    part(pixels, row_scale_.data(), row_bias_.data(), channels, count, row * count);
    return;
  }
  const std::size_t plane = width * static_cast<std::size_t>(shape_.height);
  for (std::size_t c = 0; c < channels; ++c) {
    part(pixels + c * stride, &plane_scale_[c * width], &plane_bias_[c * width], 1, width,
         c * plane + row * width);
  }
}

void Emitter::row(int y, const float* pixels, std::size_t stride) {
  const auto width = static_cast<std::size_t>(shape_.width);
  const auto channels = static_cast<std::size_t>(shape_.channels);
  const auto row = static_cast<std::size_t>(y);
  const bool planes = layout_ == Layout::planar;
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float value = planes ? pixels[c * stride + x] : pixels[x * channels + c];
      values_[planes ? c * width + x : x * channels + c] = (value - mean_[c]) / deviation_[c];
    }
  }
  if (!planes) return put(values_.data(), values_.size(), row * values_.size());
  const std::size_t plane = width * static_cast<std::size_t>(shape_.height);
  for (std::size_t c = 0; c < channels; ++c) {
    put(&values_[c * width], width, c * plane + row * width);
  }
}

void Emitter::colored(int y, const std::uint8_t* planes, std::size_t stride) {
  // Normalization is one more step of the same kind.
  ColorMap map = *color_;
  if (pixel_ != Pixel::u8) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < 4; ++i) map[c * 4 + i] *= scale_[c];
      map[c * 4 + 3] += bias_[c];
    }
  }
  const auto width = static_cast<std::size_t>(shape_.width);
  const bool planar = layout_ == Layout::planar;
  for (std::size_t c = 0; c < 3; ++c) {
    const float* const m = &map[c * 4];
    float* to = planar ? &values_[c * width] : &values_[c];
    const std::size_t step = planar ? 1 : 3;
    for (std::size_t x = 0; x < width; ++x) {
      to[x * step] = m[0] * static_cast<float>(planes[x]) +
                     m[1] * static_cast<float>(planes[stride + x]) +
                     m[2] * static_cast<float>(planes[2 * stride + x]) + m[3];
    }
  }
  const std::size_t parts = planar ? 3 : 1;
  const std::size_t count = values_.size() / parts;
  const std::size_t plane = planar ? width * static_cast<std::size_t>(shape_.height) : 0;
  for (std::size_t p = 0; p < parts; ++p) {
    const float* const from = &values_[p * count];
    const std::size_t at = p * plane + static_cast<std::size_t>(y) * count;
    if (pixel_ == Pixel::u8) {
      for (std::size_t i = 0; i < count; ++i)
        out_[at + i] = static_cast<std::byte>(to_byte(from[i]));
    } else {
      put(from, count, at);
    }
  }
}

}  // namespace convoy::data
