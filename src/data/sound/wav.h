// Recordings in RIFF WAVE files, from bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace convoy::data {

struct Sound {
  int rate = 0;                // samples per second
  std::vector<float> samples;  // in [-1, 1): the stored numbers / 32768
};

// Reads PCM of 16 bits, of one channel, or of two, whose mean is taken. Chunks may stand in any
// order, those that are not needed are passed over; the bytes that a header counts have to be
// there, what follows them is ignored. Throws UsageError naming the file for anything else.
Sound parse_wav(std::span<const std::byte> file, const std::string& name);

}  // namespace convoy::data
