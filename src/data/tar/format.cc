#include "data/tar/format.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "convoy/base/error.h"
#include "data/bytes.h"

namespace convoy::data {
namespace {

// Where a field stands in a header block, and how long it is.
struct Field {
  std::size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::string_view kUstar("ustar\00000", 8);
constexpr std::uint64_t kMostOctal = (std::uint64_t{1} << 33) - 1;  // 11 digits

using Block = std::array<std::byte, kTarBlock>;

std::string_view text_of(std::span<const std::byte> block, Field field) {
  const std::string_view all(reinterpret_cast<const char*>(block.data()) + field.at, field.size);
  return all.substr(0, all.find('\0'));
}

// The sum of all bytes, those of the checksum counted as spaces.
unsigned checksum(std::span<const std::byte> block) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : std::to_integer<unsigned>(block[i]);
  }
  return sum;
}

std::uint64_t parse_octal(std::string_view text, const char* what) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return 0;
  text.remove_prefix(begin);
  text = text.substr(0, text.find(' '));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw UsageError(std::string("the ") + what + " of a member is no octal number");
  }
  return value;
}

std::uint64_t parse_size(std::span<const std::byte> block) {
  const auto field = block.subspan(kSize.at, kSize.size);
  const auto first = std::to_integer<unsigned>(field[0]);
  if ((first & 0x80) == 0) return parse_octal(text_of(block, kSize), "size");
  // GNU: the bit says that the rest is a binary number, most significant byte first.
  std::uint64_t value = 0;
  const bool negative = first == 0xff;
  for (std::size_t i = 1; i < field.size(); ++i) {
    if (value >> 55 != 0 || negative || first != 0x80) {
      throw UsageError("the size of a member is negative or absurd");
    }
    value = value << 8 | std::to_integer<std::uint64_t>(field[i]);
  }
  return value;
}

void put(Block& block, Field field, std::string_view text) {
  const std::string_view part = text.substr(0, field.size);
  std::transform(part.begin(), part.end(), block.begin() + static_cast<std::ptrdiff_t>(field.at),
                 [](char c) { return static_cast<std::byte>(c); });
}

// Octal digits with leading zeros, and a NUL behind them.
void put_octal(Block& block, Field field, std::uint64_t value) {
  std::string digits(field.size - 1, '0');
  for (std::size_t i = digits.size(); i-- > 0; value >>= 3) {
    digits[i] = static_cast<char>('0' + (value & 7));
  }
  put(block, field, digits);
}

void append_block(std::vector<std::byte>& to, std::string_view prefix, std::string_view name,
                  std::uint64_t size, char type) {
  Block block{};
  put(block, kName, name);
  put_octal(block, kMode, 0644);
  put_octal(block, kUser, 0);
  put_octal(block, kGroup, 0);
  put_octal(block, kSize, size);
  put_octal(block, kTime, 0);
  put(block, kType, {&type, 1});
  put(block, kMagic, kUstar);
  put(block, kPrefix, prefix);
  put_octal(block, {kChecksum.at, kChecksum.size - 1}, checksum(block));
  put(block, {kChecksum.at + kChecksum.size - 1, 1}, " ");
  append(to, block);
}

// Whether ustar can hold the name; it may be cut in two at a slash.
bool split_name(std::string_view name, std::string_view& prefix, std::string_view& rest) {
  prefix = {};
  rest = name;
  if (name.size() <= kName.size) return true;
  for (std::size_t at = name.find('/'); at != name.npos; at = name.find('/', at + 1)) {
    if (at > 0 && at <= kPrefix.size && at + 1 < name.size() &&
        name.size() - at - 1 <= kName.size) {
      prefix = name.substr(0, at);
      rest = name.substr(at + 1);
      return true;
    }
  }
  return false;
}

// "<length> <key>=<value>\n", where the length counts its own digits.
std::string pax_record(const std::string& key, std::string_view value) {
  const std::size_t others = key.size() + value.size() + 3;
  std::size_t length = others;
  while (length != others + std::to_string(length).size()) {
    length = others + std::to_string(length).size();
  }
  return std::to_string(length) + " " + key + "=" + std::string(value) + "\n";
}

}  // namespace

bool is_zero_block(std::span<const std::byte, kTarBlock> block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

TarHeader parse_tar_header(std::span<const std::byte, kTarBlock> block) {
  if (parse_octal(text_of(block, kChecksum), "checksum") != checksum(block)) {
    throw UsageError("the checksum of a member's header is wrong");
  }
  TarHeader header;
  header.name = text_of(block, kName);
  header.type = static_cast<char>(block[kType.at]);
  // GNU's own format, "ustar  ", has other things where ustar has the front of the name.
  const std::string_view prefix = text_of(block, kPrefix);
  const std::string_view magic(reinterpret_cast<const char*>(block.data()) + kMagic.at, 6);
  if (magic == kUstar.substr(0, 6) && !prefix.empty()) {
    header.name = std::string(prefix) + "/" + header.name;
  }
  header.size = parse_size(block);
  return header;
}

PaxFields parse_pax(std::span<const std::byte> records) {
  PaxFields fields;
  std::string_view text(reinterpret_cast<const char*>(records.data()), records.size());
  const auto bad = [] { return UsageError("a pax header is damaged"); };
  while (!text.empty() && text.front() != '\0') {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error != std::errc{} || length > text.size() || length < digits + 3 ||
        text[digits] != ' ' || text[length - 1] != '\n') {
      throw bad();
    }
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == record.npos) throw bad();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      if (value.find('\0') != value.npos) throw bad();
      fields.path = value;
    } else if (key == "size") {
      const char* stop = value.data() + value.size();
      const auto [at, wrong] = std::from_chars(value.data(), stop, fields.size);
      if (wrong != std::errc{} || at != stop) throw bad();
      fields.has_size = true;
    } else if (key.starts_with("GNU.sparse.")) {
      fields.sparse = true;
    }
  }
  return fields;
}

void append_tar_header(std::vector<std::byte>& to, const std::string& name, std::uint64_t size) {
  std::string_view prefix, rest;
  std::string pax;
  if (!split_name(name, prefix, rest)) {
    pax += pax_record("path", name);
    rest = std::string_view(name).substr(0, kName.size);  // for programs that know no pax
  }
  if (size > kMostOctal) pax += pax_record("size", std::to_string(size));
  if (!pax.empty()) {
    append_block(to, {}, "PaxHeaders/record", pax.size(), 'x');
    append(to, std::as_bytes(std::span(pax)));
    append_tar_padding(to, pax.size());
  }
  append_block(to, prefix, rest, std::min(size, kMostOctal), '0');
}

void append_tar_padding(std::vector<std::byte>& to, std::uint64_t size) {
  to.resize(to.size() + static_cast<std::size_t>(padded(size) - size));
}

void append_tar_member(std::vector<std::byte>& to, const std::string& name,
                       std::span<const std::byte> bytes) {
  append_tar_header(to, name, bytes.size());
  append(to, bytes);
  append_tar_padding(to, bytes.size());
}

}  // namespace convoy::data
