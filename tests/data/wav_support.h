// WAV files, written chunk by chunk.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "data/bytes.h"
#include "data/packed/numbers.h"
#include "tests/data/support.h"

namespace convoy::data {

struct Chunk {
  std::string letters;
  Bytes bytes;
};

struct Format {
  int kind = 1, channels = 1, rate = 8000, bits = 16;
  int block = 2;  // bytes of a sample, of all channels
};

inline Chunk format_chunk(const Format& f = {}) {
  Bytes bytes;
  put(bytes, static_cast<std::uint16_t>(f.kind));
  put(bytes, static_cast<std::uint16_t>(f.channels));
  put(bytes, static_cast<std::uint32_t>(f.rate));
  put(bytes, static_cast<std::uint32_t>(f.rate * f.block));
  put(bytes, static_cast<std::uint16_t>(f.block));
  put(bytes, static_cast<std::uint16_t>(f.bits));
  return {"fmt ", bytes};
}

inline Chunk data_chunk(const std::vector<int>& samples) {
  Bytes bytes;
  for (const int sample : samples) put(bytes, static_cast<std::uint16_t>(sample));
  return {"data", bytes};
}

inline Bytes riff(const std::vector<Chunk>& chunks) {
  Bytes body;
  append(body, bytes_of("WAVE"));
  for (const Chunk& chunk : chunks) {
    append(body, bytes_of(chunk.letters));
    put(body, static_cast<std::uint32_t>(chunk.bytes.size()));
    append(body, chunk.bytes);
    if (chunk.bytes.size() % 2 == 1) body.push_back(std::byte{0});
  }
  Bytes file;
  append(file, bytes_of("RIFF"));
  put(file, static_cast<std::uint32_t>(body.size()));
  append(file, body);
  return file;
}

inline Bytes wav(const std::vector<int>& samples, int rate = 8000) {
  return riff({format_chunk({.rate = rate}), data_chunk(samples)});
}

// A tone whose loudness comes and goes, so that no filter hears the same all the time.
inline std::vector<int> tone(double hz, std::size_t count, int rate = 8000) {
  std::vector<int> samples;
  for (std::size_t n = 0; n < count; ++n) {
    const double t = static_cast<double>(n) / rate;
    const double loudness = 8000 * (1.1 - std::cos(40 * t));
    samples.push_back(static_cast<int>(loudness * std::sin(2 * std::numbers::pi * hz * t)));
  }
  return samples;
}

}  // namespace convoy::data
