// The bytes of tar files: POSIX ustar and pax, and what GNU tar writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace convoy::data {

inline constexpr std::size_t kTarBlock = 512;
// Two blocks of zeros.
inline constexpr std::size_t kTarEnd = 2 * kTarBlock;

// How many bytes a member of so many takes up behind its header.
inline std::uint64_t padded(std::uint64_t size) {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

// One header block, alone.
struct TarHeader {
  std::string name;
  std::uint64_t size = 0;
  char type = '0';
};

bool is_zero_block(std::span<const std::byte, kTarBlock> block);

// Throws UsageError saying what is wrong, without a file's name: a wrong checksum, numbers that are
// none. Sizes may be octal or, beyond 8 GiB, binary as GNU tar writes them.
TarHeader parse_tar_header(std::span<const std::byte, kTarBlock> block);

// What a pax header says about the member behind it.
struct PaxFields {
  std::string path;  // empty: not said
  std::uint64_t size = 0;
  bool has_size = false;
  bool sparse = false;  // the member is not stored as one piece
};
// Throws UsageError without a file's name.
PaxFields parse_pax(std::span<const std::byte> records);

// Appends what stands before the bytes of an ordinary file: one block, or three or more where the
// name or the size needs a pax header. Time, owner and mode are the same for all.
void append_tar_header(std::vector<std::byte>& to, const std::string& name, std::uint64_t size);
// Appends a whole member.
void append_tar_member(std::vector<std::byte>& to, const std::string& name,
                       std::span<const std::byte> bytes);
// Appends zeros up to a whole block, for a member of `size` bytes.
void append_tar_padding(std::vector<std::byte>& to, std::uint64_t size);

}  // namespace convoy::data
