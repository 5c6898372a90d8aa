// Records for logs.
#pragma once

#include <string>

#include "server/log/log.h"

namespace convoy::server::test {

inline Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// The bytes of record `index`, of another length each.
inline Bytes content(std::uint64_t index) {
  return bytes_of("record " + std::to_string(index) + std::string(index * 7 % 50, 'x'));
}

inline void fill(Log& log, std::uint64_t first, std::uint64_t last, std::uint64_t epoch = 1) {
  for (std::uint64_t i = first; i <= last; ++i) log.append(i, epoch, content(i));
}

// Whether the log has the records that fill() wrote, up to `last`.
inline bool holds(const Log& log, std::uint64_t last) {
  if (log.last_index() != last) return false;
  std::uint64_t next = log.first_index();
  while (next <= last) {
    for (const LogRecord& record : log.read(next, 1000)) {
      if (record.index != next || record.bytes != content(next)) return false;
      ++next;
    }
  }
  return true;
}

}  // namespace convoy::server::test
