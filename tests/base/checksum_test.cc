#include "convoy/base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"

namespace convoy {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// What xxHash's own program says (xxhsum -H3), and RFC 3720's examples of CRC-32C.
TEST(Checksum, PublishedValues) {
  EXPECT_EQ(to_hex(xxh3({})), "2d06800538d394c2");
  EXPECT_EQ(to_hex(xxh3(bytes_of("abc"))), "78af5f94892f3950");
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
}

TEST(Checksum, PiecesGiveTheWhole) {
  std::vector<std::byte> bytes(10'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  for (const std::size_t piece : {1u, 63u, 256u, 4096u}) {
    Xxh3 hash;
    hash.update({});
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      hash.update(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(hash.digest(), xxh3(bytes)) << piece;
  }
}

TEST(Checksum, EveryFlippedBitShows) {
  std::vector<std::byte> bytes(300, std::byte{0x5a});
  const std::uint64_t whole = xxh3(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1u << bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_NE(xxh3(bytes), whole) << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(Checksum, Hexadecimal) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x0123456789abcdef), "0123456789abcdef");
  for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_EQ(from_hex(to_hex(value)), value);
  }
  for (const char* bad : {"", "0", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef0",
                          " 123456789abcdef", "-123456789abcdef"}) {
    EXPECT_THROW(from_hex(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace convoy
