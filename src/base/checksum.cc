#include "convoy/base/checksum.h"

#include <xxhash.h>

#include <array>
#include <new>

#include "convoy/base/error.h"

namespace convoy {
namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

// Castagnoli's polynomial, bits reversed.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_of(state_));
}

Xxh3::~Xxh3() { XXH3_freeState(state_of(state_)); }

void Xxh3::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_of(state_), bytes.data(), bytes.size());
}

std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(state_of(state_)); }

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t value = 0;
  bool good = text.size() == 16;
  for (std::size_t i = 0; good && i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9';
    good = digit || (c >= 'a' && c <= 'f');
    value = value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  if (!good) {
    throw UsageError("'" + text.substr(0, 40) +
                     "' is no checksum: 16 lower-case hexadecimal digits are");
  }
  return value;
}

}  // namespace convoy
