// Tars and indexes for tests.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/checksum.h"
#include "data/tar/format.h"
#include "tests/data/support.h"

namespace convoy::data {

inline Bytes as_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

using Members = std::vector<std::pair<std::string, Bytes>>;

inline Bytes make_tar(const Members& members, bool end = true) {
  Bytes tar;
  for (const auto& [name, bytes] : members) append_tar_member(tar, name, bytes);
  if (end) tar.resize(tar.size() + kTarEnd);
  return tar;
}

// Gives an index whose bytes were changed the checksums of what it holds now.
inline void reseal(Bytes& index) {
  const auto put = [&index](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) {
      index[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
    }
  };
  if (index.size() < 128) return;
  put(72, xxh3(std::span(index).subspan(128)));
  put(120, xxh3(std::span(index).first(120)));
}

}  // namespace convoy::data
