#include "server/wire/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace convoy::server {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values travel little-endian and are copied as they are");

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN whose payload stands in the lower half would become infinite.
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;  // no number
  // 65520 and more are nearer to 2^16, which f16 doesn't have, than to 65504.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 f16 counts in steps of 2^-24: so many of them, rounded as the hardware does.
    const float steps = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<std::uint16_t>(std::nearbyint(steps));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000) >> 13);
}

float of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <std::uint16_t (*kTo)(float)>
void encode16(std::span<const float> values, std::byte* to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = kTo(values[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

template <float (*kFrom)(std::uint16_t)>
void decode16(const std::byte* from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = kFrom(bits);
  }
}

// Whether the exponent of every number has a bit that is 0: all ones are infinity and NaN.
template <typename T>
bool all_finite(std::span<const std::byte> bytes, T exponent) {
  // Without a branch inside, so that the loop is vectorized.
  T found = 0;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T bits;
    std::memcpy(&bits, bytes.data() + i, sizeof(T));
    found |= static_cast<T>((bits & exponent) == exponent);
  }
  return found == 0;
}

}  // namespace

bool known(Encoding encoding) { return encoding <= Encoding::fill; }

std::uint64_t encoded_size(Encoding encoding, std::uint64_t count) {
  switch (encoding) {
    case Encoding::f32:
      return count * 4;
    case Encoding::bf16:
    case Encoding::f16:
      return count * 2;
    case Encoding::fill:
      return 4;
  }
  return 0;
}

void encode(Encoding encoding, std::span<const float> values, std::span<std::byte> to) {
  switch (encoding) {
    case Encoding::f32:
      if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
      return;
    case Encoding::bf16:
      return encode16<bf16_of>(values, to.data());
    case Encoding::f16:
      return encode16<f16_of>(values, to.data());
    case Encoding::fill: {
      const float value = values.empty() ? 0 : values.front();
      std::memcpy(to.data(), &value, 4);
      return;
    }
  }
}

void EncodedValues::decode(std::uint64_t begin, std::span<float> to) const {
  if (to.empty()) return;
  switch (encoding_) {
    case Encoding::f32:
      std::memcpy(to.data(), bytes_.data() + begin * 4, to.size_bytes());
      return;
    case Encoding::bf16:
      return decode16<of_bf16>(bytes_.data() + begin * 2, to);
    case Encoding::f16:
      return decode16<of_f16>(bytes_.data() + begin * 2, to);
    case Encoding::fill: {
      float value;
      std::memcpy(&value, bytes_.data(), 4);
      std::fill(to.begin(), to.end(), value);
      return;
    }
  }
}

std::span<const float> EncodedValues::view(std::uint64_t begin, std::uint64_t count,
                                           std::span<float> scratch) const {
  if (encoding_ == Encoding::f32 &&
      reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(bytes_.data()) + begin, count};
  }
  decode(begin, scratch.first(count));
  return scratch.first(count);
}

EncodedValues EncodedValues::part(std::uint64_t begin, std::uint64_t count) const {
  if (encoding_ == Encoding::fill) return {encoding_, count, bytes_};
  return {encoding_, count,
          bytes_.subspan(encoded_size(encoding_, begin), encoded_size(encoding_, count))};
}

bool EncodedValues::finite() const {
  switch (encoding_) {
    case Encoding::f32:
      return all_finite<std::uint32_t>(bytes_, 0x7f800000);
    case Encoding::bf16:
      return all_finite<std::uint16_t>(bytes_, 0x7f80);
    case Encoding::f16:
      return all_finite<std::uint16_t>(bytes_, 0x7c00);
    case Encoding::fill:
      return count_ == 0 || all_finite<std::uint32_t>(bytes_, 0x7f800000);
  }
  return false;
}

}  // namespace convoy::server
