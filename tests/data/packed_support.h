// Tars and indexes for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

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

}  // namespace convoy::data
