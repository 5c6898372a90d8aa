#include "server/wire/writer.h"

#include <bit>

namespace convoy::server {

void Writer::f64(double value) { u64(std::bit_cast<std::uint64_t>(value)); }

void Writer::text(std::string_view text) {
  u32(static_cast<std::uint32_t>(text.size()));
  raw(std::as_bytes(std::span(text)));
}

void Writer::bytes(std::span<const std::byte> bytes) {
  u64(bytes.size());
  raw(bytes);
}

void Writer::raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void Writer::values(Encoding encoding, std::span<const float> values) {
  u8(static_cast<std::uint8_t>(encoding));
  u64(values.size());
  encode(encoding, values, room(encoded_size(encoding, values.size())));
}

void Writer::values(const EncodedValues& values) {
  u8(static_cast<std::uint8_t>(values.encoding()));
  u64(values.size());
  raw(values.bytes());
}

void Writer::fill(float value, std::uint64_t count) {
  u8(static_cast<std::uint8_t>(Encoding::fill));
  u64(count);
  u32(std::bit_cast<std::uint32_t>(value));
}

std::span<std::byte> Writer::room(std::size_t count) {
  const std::size_t begin = bytes_.size();
  bytes_.resize(begin + count);
  return std::span(bytes_).subspan(begin);
}

}  // namespace convoy::server
