// Arrays of float32 as they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy::server {

// How values are written. bf16 and f16 round to the nearest, ties to even; what is too large for
// f16 becomes infinite, so that a gradient that doesn't fit is refused like any other that isn't
// finite.
enum class Encoding : std::uint8_t {
  f32 = 0,
  bf16 = 1,
  f16 = 2,
  fill = 3,  // all have the same value, which is written once: new weights, mostly
};

bool known(Encoding encoding);

// Bytes that `count` values take. REQUIRES: count <= 2^60.
std::uint64_t encoded_size(Encoding encoding, std::uint64_t count);

// REQUIRES: to.size() == encoded_size(encoding, values.size()), and all values the same for fill.
void encode(Encoding encoding, std::span<const float> values, std::span<std::byte> to);

// Values as they stand in a message that somebody else keeps. They may stand at any address.
class EncodedValues {
 public:
  EncodedValues() = default;
  // REQUIRES: bytes.size() == encoded_size(encoding, count)
  EncodedValues(Encoding encoding, std::uint64_t count, std::span<const std::byte> bytes)
      : encoding_(encoding), count_(count), bytes_(bytes) {}

  Encoding encoding() const { return encoding_; }
  std::uint64_t size() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Values begin to begin + to.size() - 1. REQUIRES: they are there.
  void decode(std::uint64_t begin, std::span<float> to) const;
  // The same without a copy where they can be read as they stand, else decoded into `scratch`,
  // which has room for `count` of them.
  std::span<const float> view(std::uint64_t begin, std::uint64_t count,
                              std::span<float> scratch) const;
  // Values begin to begin + count - 1. REQUIRES: they are there.
  EncodedValues part(std::uint64_t begin, std::uint64_t count) const;
  // Whether none is infinite or no number.
  bool finite() const;

 private:
  Encoding encoding_ = Encoding::f32;
  std::uint64_t count_ = 0;
  std::span<const std::byte> bytes_;
};

}  // namespace convoy::server
