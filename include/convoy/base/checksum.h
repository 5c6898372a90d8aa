// Checksums of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace convoy {

// XXH3, 64 bits: every flipped bit changes it. Not against forgery.
std::uint64_t xxh3(std::span<const std::byte> bytes);

// Makes the same checksum over bytes that come in pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  void* state_;
};

// CRC-32C (Castagnoli), as TFRecord files use it.
std::uint32_t crc32c(std::span<const std::byte> bytes);

// 16 lower-case hexadecimal digits, and back; throws UsageError for anything else.
std::string to_hex(std::uint64_t value);
std::uint64_t from_hex(const std::string& text);

}  // namespace convoy
