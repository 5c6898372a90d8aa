#include "data/transform/kernels.h"

#include <algorithm>
#include <bit>

// This unit is compiled once per instruction set; the best that the machine has is chosen at run
// time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/transform/kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace convoy::data::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes

unsigned add_product(unsigned sum, unsigned number, unsigned weight) {
  return std::min(sum + ((number * weight) >> 16), 65535u);
}

void mix_columns(const ColumnSteps& steps, const std::uint8_t* planes, std::size_t stride,
                 std::size_t channels, std::uint16_t* out) {
  for (std::size_t c = 0; c < channels; ++c, planes += stride) {
    for (std::size_t group = 0; group < steps.groups(); ++group) {
      const std::size_t first = steps.begin[group], end = steps.begin[group + 1];
      for (std::size_t i = 0; i < ColumnSteps::kOutputs; ++i) {
        unsigned sum = steps.lost[group * ColumnSteps::kOutputs + i];
        for (std::size_t step = first; step < end; ++step) {
          const std::uint8_t index = steps.indexes[step * 32 + i * 2 + 1];
          if (index >= 128) continue;
          sum = add_product(sum, planes[steps.windows[step * 2 + i / 8] + index] * 256u,
                            steps.weights[step * 16 + i]);
        }
        *out++ = static_cast<std::uint16_t>(sum);
      }
    }
  }
}

void mix_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::size_t taps,
              std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    unsigned sum = 128u + lost_by(taps);
    for (std::size_t t = 0; t < taps; ++t) sum = add_product(sum, rows[t][i], weights[t]);
    out[i] = static_cast<std::uint8_t>(sum >> 8);
  }
}

void split_colors(const std::uint8_t* row, std::size_t width, std::uint8_t* planes,
                  std::size_t stride) {
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t c = 0; c < 3; ++c) planes[c * stride + x] = row[3 * x + c];
  }
}

void join_colors(const std::uint8_t* planes, std::size_t stride, std::size_t width,
                 std::uint8_t* row) {
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t c = 0; c < 3; ++c) row[3 * x + c] = planes[c * stride + x];
  }
}

void normalize(const std::uint8_t* row, const float* scale, const float* bias, std::size_t,
               std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(row[i]) * scale[i] + bias[i];
  }
}

void flush() {}

#else

// Wider vectors would need more input pixels per table than the 16 that a look-up can reach.
using Bytes = hn::CappedTag<std::uint8_t, 32>;
using Numbers = hn::Repartition<std::uint16_t, Bytes>;

HWY_INLINE hn::Vec<Bytes> load_windows(const std::uint8_t* plane, const std::uint32_t* windows) {
  const Bytes d;
#if HWY_MAX_BYTES >= 32
  const hn::Half<Bytes> half;
  return hn::Combine(d, hn::LoadU(half, plane + windows[1]), hn::LoadU(half, plane + windows[0]));
#else
  return hn::LoadU(d, plane + windows[0]);
#endif
}

template <std::size_t kChannels>
void mix_columns_of(const ColumnSteps& steps, const std::uint8_t* planes, std::size_t stride,
                    std::uint16_t* out) {
  const Bytes bytes;
  const Numbers numbers;
  const std::size_t lanes = hn::Lanes(numbers);
  const std::size_t out_stride = steps.groups() * ColumnSteps::kOutputs;
  for (std::size_t group = 0; group < steps.groups(); ++group) {
    for (std::size_t at = 0; at < ColumnSteps::kOutputs; at += lanes) {
      const std::size_t first = steps.begin[group], end = steps.begin[group + 1];
      auto sum0 = hn::LoadU(numbers, &steps.lost[group * ColumnSteps::kOutputs + at]);
      auto sum1 = sum0, sum2 = sum0;
      for (std::size_t step = first; step < end; ++step) {
        const auto index = hn::LoadU(bytes, &steps.indexes[step * 32 + at * 2]);
        const auto weight = hn::LoadU(numbers, &steps.weights[step * 16 + at]);
        const std::uint32_t* windows = &steps.windows[step * 2 + at / 8];
        const auto mixed = [&](std::size_t c) HWY_ATTR {
          const auto pixels = load_windows(planes + c * stride, windows);
          return hn::MulHigh(hn::BitCast(numbers, hn::TableLookupBytesOr0(pixels, index)), weight);
        };
        sum0 = hn::SaturatedAdd(sum0, mixed(0));
        if constexpr (kChannels == 3) {
          sum1 = hn::SaturatedAdd(sum1, mixed(1));
          sum2 = hn::SaturatedAdd(sum2, mixed(2));
        }
      }
      std::uint16_t* to = out + group * ColumnSteps::kOutputs + at;
      hn::StoreU(sum0, numbers, to);
      if constexpr (kChannels == 3) {
        hn::StoreU(sum1, numbers, to + out_stride);
        hn::StoreU(sum2, numbers, to + 2 * out_stride);
      }
    }
  }
}

void mix_columns(const ColumnSteps& steps, const std::uint8_t* planes, std::size_t stride,
                 std::size_t channels, std::uint16_t* out) {
  if (channels == 3) return mix_columns_of<3>(steps, planes, stride, out);
  const std::size_t out_stride = steps.groups() * ColumnSteps::kOutputs;
  for (std::size_t c = 0; c < channels; ++c)
    mix_columns_of<1>(steps, planes + c * stride, stride, out + c * out_stride);
}

// kTaps 0: any number of them.
template <std::size_t kTaps>
void mix_rows_of(const std::uint16_t* const* rows, const std::uint16_t* weights, std::size_t taps,
                 std::size_t count, std::uint8_t* out) {
  const Numbers numbers;
  const std::size_t lanes = hn::Lanes(numbers);
  const auto half = hn::Set(numbers, static_cast<std::uint16_t>(128 + lost_by(taps)));
  const auto weight0 = hn::Set(numbers, weights[0]);
  const auto weight1 = hn::Set(numbers, weights[kTaps > 1 ? 1 : 0]);
  const auto weight2 = hn::Set(numbers, weights[kTaps > 2 ? 2 : 0]);
  const auto summed = [&](std::size_t i) HWY_ATTR {
    auto sum = hn::SaturatedAdd(half, hn::MulHigh(hn::LoadU(numbers, rows[0] + i), weight0));
    const auto add = [&](std::size_t t, hn::Vec<Numbers> weight) HWY_ATTR {
      sum = hn::SaturatedAdd(sum, hn::MulHigh(hn::LoadU(numbers, rows[t] + i), weight));
    };
    if constexpr (kTaps > 1) add(1, weight1);
    if constexpr (kTaps > 2) add(2, weight2);
    if constexpr (kTaps == 0) {
      for (std::size_t t = 1; t < taps; ++t) add(t, hn::Set(numbers, weights[t]));
    }
    return sum;
  };
  // What lies before the point is the upper byte.
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto low = hn::BitCast(Bytes(), summed(i));
    const auto high = hn::BitCast(Bytes(), summed(i + lanes));
    hn::StoreU(hn::ConcatOdd(Bytes(), high, low), Bytes(), out + i);
  }
  if (i < count) {
    const hn::Half<Bytes> bytes;
    const hn::RebindToSigned<Numbers> whole;
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(whole, hn::ShiftRight<8>(summed(i)))), bytes,
               out + i);
  }
}

void mix_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::size_t taps,
              std::size_t count, std::uint8_t* out) {
  switch (taps) {
    case 1:
      return mix_rows_of<1>(rows, weights, taps, count, out);
    case 2:
      return mix_rows_of<2>(rows, weights, taps, count, out);
    case 3:
      return mix_rows_of<3>(rows, weights, taps, count, out);
    default:
      return mix_rows_of<0>(rows, weights, taps, count, out);
  }
}

void split_colors(const std::uint8_t* row, std::size_t width, std::uint8_t* planes,
                  std::size_t stride) {
  const Bytes d;
  const std::size_t lanes = hn::Lanes(d);
  if (width < lanes) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) planes[c * stride + x] = row[3 * x + c];
    }
    return;
  }
  const auto split = [&](std::size_t x) HWY_ATTR {
    hn::Vec<Bytes> a, b, c;
    hn::LoadInterleaved3(d, row + 3 * x, a, b, c);
    hn::StoreU(a, d, planes + x);
    hn::StoreU(b, d, planes + stride + x);
    hn::StoreU(c, d, planes + 2 * stride + x);
  };
  for (std::size_t x = 0; x + lanes <= width; x += lanes) split(x);
  split(width - lanes);  // the row's end, some of it twice: nothing behind it may be read
}

void join_colors(const std::uint8_t* planes, std::size_t stride, std::size_t width,
                 std::uint8_t* row) {
  const hn::CappedTag<std::uint8_t, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t x = 0; x < width; x += lanes) {
    const std::uint8_t* from = planes + x;
    hn::StoreInterleaved3(hn::LoadU(d, from), hn::LoadU(d, from + stride),
                          hn::LoadU(d, from + 2 * stride), d, row + 3 * x);
  }
}

// kStream: past the caches, which a batch would sweep clean long before anybody reads it.
template <bool kStream>
void normalize_to(const std::uint8_t* row, const float* scale, const float* bias,
                  std::size_t channels, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::int32_t, decltype(d)> whole;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  const auto put = [&](std::size_t i, auto scales, auto biases) HWY_ATTR {
    const auto value = hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(bytes, row + i)));
    const auto result = hn::Add(hn::Mul(value, scales), biases);
    if constexpr (kStream) {
      hn::Stream(result, d, out + i);
    } else {
      hn::StoreU(result, d, out + i);
    }
  };
  std::size_t i = 0;
  if ((channels == 3 || channels == 1) && count >= 3 * lanes) {
    // The numbers per channel repeat every three vectors.
    const auto scale0 = hn::LoadU(d, scale), bias0 = hn::LoadU(d, bias);
    const auto scale1 = hn::LoadU(d, scale + lanes), bias1 = hn::LoadU(d, bias + lanes);
    const auto scale2 = hn::LoadU(d, scale + 2 * lanes), bias2 = hn::LoadU(d, bias + 2 * lanes);
    for (; i + 3 * lanes <= count; i += 3 * lanes) {
      put(i, scale0, bias0);
      put(i + lanes, scale1, bias1);
      put(i + 2 * lanes, scale2, bias2);
    }
  }
  for (; i + lanes <= count; i += lanes) put(i, hn::LoadU(d, scale + i), hn::LoadU(d, bias + i));
  for (; i < count; ++i) out[i] = static_cast<float>(row[i]) * scale[i] + bias[i];
}

void normalize(const std::uint8_t* row, const float* scale, const float* bias, std::size_t channels,
               std::size_t count, float* out) {
  const std::size_t vector = hn::Lanes(hn::ScalableTag<float>()) * sizeof(float);
  reinterpret_cast<std::uintptr_t>(out) % vector == 0
      ? normalize_to<true>(row, scale, bias, channels, count, out)
      : normalize_to<false>(row, scale, bias, channels, count, out);
}

void flush() { hwy::FlushStream(); }

#endif  // HWY_SCALAR

}  // namespace convoy::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace convoy::data {

HWY_EXPORT(split_colors);
HWY_EXPORT(join_colors);
HWY_EXPORT(mix_columns);
HWY_EXPORT(mix_rows);
HWY_EXPORT(normalize);
HWY_EXPORT(flush);

void split_row(const std::uint8_t* row, std::size_t width, std::size_t channels,
               std::uint8_t* planes, std::size_t stride) {
  if (channels == 1) {
    std::copy_n(row, width, planes);
  } else if (channels == 3) {
    HWY_DYNAMIC_DISPATCH(split_colors)(row, width, planes, stride);
  } else {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) planes[c * stride + x] = *row++;
    }
  }
}

void join_row(const std::uint8_t* planes, std::size_t stride, std::size_t width,
              std::size_t channels, std::uint8_t* row) {
  if (channels == 1) {
    std::copy_n(planes, width, row);
  } else if (channels == 3) {
    HWY_DYNAMIC_DISPATCH(join_colors)(planes, stride, width, row);
  } else {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) *row++ = planes[c * stride + x];
    }
  }
}

void mix_columns(const ColumnSteps& steps, const std::uint8_t* planes, std::size_t stride,
                 std::size_t channels, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(mix_columns)(steps, planes, stride, channels, out);
}

void mix_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::size_t taps,
              std::size_t count, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(mix_rows)(rows, weights, taps, count, out);
}

void normalize(const std::uint8_t* row, const float* scale, const float* bias, std::size_t channels,
               std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(normalize)(row, scale, bias, channels, count, out);
}

void flush() { HWY_DYNAMIC_DISPATCH(flush)(); }

void shorten(const float* from, std::size_t count, std::uint16_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    // Of what is no number, the upper bits could say infinity, or zero where the sum overflows.
    const bool number = (bits & 0x7FFFFFFF) <= 0x7F800000;
    out[i] = static_cast<std::uint16_t>(number ? rounded : (bits >> 16) | 0x40);
  }
}

}  // namespace convoy::data
#endif
