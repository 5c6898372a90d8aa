// Resizing with a triangle filter, of as little of a picture as the result needs, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "convoy/data/transform.h"
#include "data/transform/kernels.h"

namespace convoy::data {

// plan() first: it says which part of the picture will be read, so that no more need be decoded.
// Then begin(), then row() for some or all rows, in ascending order. Keeps its memory; not
// thread-safe.
class Resizer {
 public:
  // A picture of picture_height x picture_width pixels whose `window` becomes out_height x
  // out_width pixels, of which `part` is wanted, with mirror from right to left. The window must
  // lie in the picture, the part in the output. As in Pillow, the filter sees pixels around the
  // window where there are some.
  void plan(int picture_height, int picture_width, const Window& window, int out_height,
            int out_width, const Window& part, bool mirror = false);

  // The pixels that row() reads, in the picture.
  const Window& source() const { return source_; }

  // `pixels`: the first pixel of source(), rows `stride` bytes apart, interleaved.
  // They must stay until the last row() is done.
  void begin(const std::uint8_t* pixels, std::size_t stride, int channels);
  // Row y of the part, as planes plane_stride() bytes apart; valid until the next call. Behind each
  // plane kRowPadding bytes may be read.
  const std::uint8_t* row(int y);
  std::size_t plane_stride() const { return steps_.groups() * ColumnSteps::kOutputs; }

 private:
  // For each output position: which input positions count, and how much: parts of 65536.
  struct Axis {
    std::size_t taps = 0;  // at most, per position
    std::vector<int> first;
    std::vector<int> count;
    std::vector<std::uint16_t> weights;  // `taps` per position
    std::vector<double> heights;         // scratch: of the triangle, for one position

    void plan(int input, int begin, int size, int output, int part_begin, int part_size,
              bool mirror);
    int used_begin() const;
    int used_end() const;
  };

  void plan_steps();
  void add_step();
  const std::uint16_t* mixed(int y);

  Axis rows_;
  Axis columns_;
  ColumnSteps steps_;
  std::size_t step_count_ = 0;
  Window source_;

  const std::uint8_t* pixels_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t channels_ = 0;
  int next_ = 0;                      // row of the source to mix the columns of
  std::vector<std::uint8_t> planes_;  // one row of the source
  std::vector<std::uint16_t> ring_;   // the last rows with mixed columns, as many as may count
  std::vector<const std::uint16_t*> sources_;
  std::vector<std::uint8_t> result_;
};

}  // namespace convoy::data
