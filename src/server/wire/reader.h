// Taking apart bytes from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/wire/little_endian.h"
#include "server/wire/values.h"

namespace convoy::server {

// Reads what Writer wrote, from bytes that somebody else keeps. Every call throws UsageError that
// names `what` and the byte when the bytes end too early or a field has a value that it can't have;
// no call takes memory before the bytes for it are there.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  double f64();
  bool boolean();                                              // 0 or 1, nothing else
  std::string text(std::size_t limit = std::size_t{1} << 16);  // at most `limit` bytes long
  std::span<const std::byte> bytes();                          // a view into the reader's bytes
  std::span<const std::byte> raw(std::uint64_t count);         // the same
  EncodedValues values();                                      // the same
  // A u32 that says how many items follow, each of at least `item_bytes` bytes (1 or more): refused
  // when so many can't be there.
  std::uint32_t count(std::size_t item_bytes);
  // A u16, which has to be 1 to `newest`.
  std::uint16_t version(std::uint16_t newest);

  std::size_t left() const { return bytes_.size() - at_; }
  // Throws unless all is read.
  void end() const;

  // Throws UsageError "<what>: byte <n>: <why>".
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  template <typename T>
  T number() {
    return get_little_endian<T>(raw(sizeof(T)).data());
  }

  std::span<const std::byte> bytes_;
  std::string what_;
  std::size_t at_ = 0;
};

}  // namespace convoy::server
