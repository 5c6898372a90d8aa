// Making the bytes of messages, commands and records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/wire/little_endian.h"
#include "server/wire/values.h"

namespace convoy::server {

using Bytes = std::vector<std::byte>;

// Appends numbers, little-endian, without padding, to bytes of its own. Reader takes them apart.
class Writer {
 public:
  void u8(std::uint8_t value) { number(value); }
  void u16(std::uint16_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void f64(double value);
  void boolean(bool value) { u8(value ? 1 : 0); }
  // Its length in 4 bytes, then its bytes. REQUIRES: at most 4 GiB.
  void text(std::string_view text);
  // Their number in 8 bytes, then the bytes.
  void bytes(std::span<const std::byte> bytes);
  // The bytes alone.
  void raw(std::span<const std::byte> bytes);
  // The encoding in 1 byte, the number of values in 8, then the values.
  void values(Encoding encoding, std::span<const float> values);
  void values(const EncodedValues& values);
  // So many values of one kind.
  void fill(float value, std::uint64_t count);

  // Room for `count` more bytes at the end, to be filled in place; good until the next call.
  std::span<std::byte> room(std::size_t count);

  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  template <typename T>
  void number(T value) {
    std::byte bytes[sizeof(T)];
    put_little_endian(bytes, value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }

  Bytes bytes_;
};

}  // namespace convoy::server
