#include "server/coordinator/base64.h"

#include <array>
#include <cstdint>

#include "convoy/base/error.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 255;

constexpr std::array<std::uint8_t, 256> values() {
  std::array<std::uint8_t, 256> values{};
  for (auto& value : values) value = kNone;
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < left ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= left ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::string to_base64(std::string_view text) { return to_base64(std::as_bytes(std::span(text))); }

Bytes from_base64(std::string_view text) {
  static constexpr auto kValues = values();
  if (text.size() % 4 != 0) throw UsageError("base64 of a length that isn't a multiple of 4");
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    // Padding only at the end.
    std::size_t padding = 0;
    if (i + 4 == text.size()) padding = text[i + 2] == '=' ? 2 : text[i + 3] == '=' ? 1 : 0;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const bool pad = k >= 4 - padding;
      const std::uint8_t value = kValues[static_cast<unsigned char>(text[i + k])];
      if (pad ? text[i + k] != '=' : value == kNone) throw UsageError("no base64");
      bits = bits << 6 | (pad ? 0 : value);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      bytes.push_back(static_cast<std::byte>(bits >> (16 - 8 * k)));
    }
  }
  return bytes;
}

}  // namespace convoy::server::coordinator
