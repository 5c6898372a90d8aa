#include "server/wire/reader.h"

#include <bit>

#include "convoy/base/error.h"

namespace convoy::server {

double Reader::f64() { return std::bit_cast<double>(u64()); }

bool Reader::boolean() {
  const std::uint8_t value = u8();
  if (value > 1) refuse(std::to_string(value) + " is neither 0 nor 1");
  return value == 1;
}

std::string Reader::text(std::size_t limit) {
  const std::uint32_t size = u32();
  if (size > limit) {
    refuse("a text of " + std::to_string(size) + " bytes; " + std::to_string(limit) +
           " are accepted");
  }
  const auto bytes = raw(size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> Reader::bytes() { return raw(u64()); }

std::span<const std::byte> Reader::raw(std::uint64_t count) {
  if (count > left()) {
    refuse(std::to_string(count) + " bytes should follow, " + std::to_string(left()) + " do");
  }
  const auto bytes = bytes_.subspan(at_, count);
  at_ += count;
  return bytes;
}

EncodedValues Reader::values() {
  const auto encoding = static_cast<Encoding>(u8());
  if (!known(encoding)) {
    refuse("no encoding of values has the number " +
           std::to_string(static_cast<unsigned>(encoding)));
  }
  const std::uint64_t count = u64();
  // Compared before it is multiplied, so that no size wraps around.
  if (encoding != Encoding::fill && count > left()) {
    refuse(std::to_string(count) + " values should follow in " + std::to_string(left()) + " bytes");
  }
  return {encoding, count, raw(encoded_size(encoding, count))};
}

std::uint32_t Reader::count(std::size_t item_bytes) {
  const std::uint32_t count = u32();
  if (count > left() / item_bytes) {
    refuse(std::to_string(count) + " items should follow in " + std::to_string(left()) + " bytes");
  }
  return count;
}

std::uint16_t Reader::version(std::uint16_t newest) {
  const std::uint16_t version = u16();
  if (version == 0 || version > newest) {
    refuse("version " + std::to_string(version) + "; this program knows 1 to " +
           std::to_string(newest));
  }
  return version;
}

void Reader::end() const {
  if (left() != 0) refuse("the end should be here, " + std::to_string(left()) + " bytes follow");
}

void Reader::refuse(const std::string& why) const {
  throw UsageError(what_ + ": byte " + std::to_string(at_) + ": " + why);
}

}  // namespace convoy::server
