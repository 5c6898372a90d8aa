// Resizing with a triangle filter, of as little of a picture as the result needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "convoy/data/transform.h"

namespace convoy::data {

// plan() first: it says which part of the picture run() will read, so that no more need be decoded.
// Keeps its memory; not thread-safe.
class Resizer {
 public:
  // A picture of picture_height x picture_width pixels whose `window` becomes out_height x
  // out_width pixels, of which `part` is wanted. The window must lie in the picture, the part in
  // the output. As in Pillow, the filter sees pixels around the window where there are some.
  void plan(int picture_height, int picture_width, const Window& window, int out_height,
            int out_width, const Window& part);

  // The pixels that run() reads, in the picture.
  const Window& source() const { return source_; }

  // `pixels`: the first pixel of source(), rows `stride` bytes apart, interleaved. Writes the part,
  // interleaved, without gaps.
  void run(const std::uint8_t* pixels, std::size_t stride, int channels,
           std::vector<std::uint8_t>& out);

 private:
  // For each output position: which input positions count, and how much.
  struct Axis {
    int taps = 0;  // at most, per position
    std::vector<int> first;
    std::vector<int> count;
    std::vector<float> weights;  // `taps` per position

    // Returns the input positions used: first and how many.
    void plan(int input, int begin, int size, int output, int part_begin, int part_size);
    int used_begin() const;
    int used_end() const;
  };

  template <int kChannels>
  void mix_columns(const float* row, std::uint8_t* out) const;

  Axis rows_;
  Axis columns_;
  Window source_;
  std::vector<float> row_;  // one output row before its columns are mixed
};

}  // namespace convoy::data
