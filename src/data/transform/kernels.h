// The loops over pixels, for the best instruction set of the machine. All sets give the same bits.
//
// Between the two directions of resizing, pixels are 16-bit numbers with 8 bits behind the point;
// weights are parts of 65536.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace convoy::data {

// Vectors may be read and written up to here beyond the last pixel of a row.
constexpr std::size_t kRowPadding = 64;

// What sums begin with: products are cut off behind their last digit, and lose half of it each, on
// average.
constexpr std::uint16_t lost_by(std::size_t products) {
  return static_cast<std::uint16_t>(std::min<std::size_t>(products / 2, 0x7fff));
}

// How columns are mixed: for each 16 output columns a number of steps; in each step, either half
// takes 16 neighboring input pixels and adds one of them, weighted, to each of its 8 outputs.
struct ColumnSteps {
  static constexpr int kOutputs = 16;

  std::vector<std::size_t> begin;      // of each 16 columns, and the end
  std::vector<std::uint32_t> windows;  // [step][2]: the first input pixel
  std::vector<std::uint8_t> indexes;   // [step][32]: 128 (nothing), and which of the 16
  std::vector<std::uint16_t> weights;  // [step][16]
  std::vector<std::uint16_t> lost;     // [group][16]: lost_by() what each output adds up

  std::size_t groups() const { return begin.size() - 1; }
};

// Splits interleaved rows into planes `stride` bytes apart, and back; here kRowPadding bytes behind
// the last pixel may be written.
void split_row(const std::uint8_t* row, std::size_t width, std::size_t channels,
               std::uint8_t* planes, std::size_t stride);
void join_row(const std::uint8_t* planes, std::size_t stride, std::size_t width,
              std::size_t channels, std::uint8_t* row);

// One row: planes of bytes, `stride` apart, to planes of steps.groups() * 16 numbers without gaps.
// Each plane must be readable for kRowPadding bytes more.
void mix_columns(const ColumnSteps& steps, const std::uint8_t* planes, std::size_t stride,
                 std::size_t channels, std::uint16_t* out);

// The weighted sum of `rows`, rounded to bytes. count is a multiple of 16.
void mix_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::size_t taps,
              std::size_t count, std::uint8_t* out);

// out[i] = row[i] * scale[i] + bias[i]; rounded twice, so that machines with and without fused
// operations agree. scale and bias repeat after `channels` numbers. What is written may lie outside
// of the caches until flush(), and be unseen by other threads.
void normalize(const std::uint8_t* row, const float* scale, const float* bias, std::size_t channels,
               std::size_t count, float* out);
void flush();

// To bfloat16, to the nearest, ties to even; what is no number stays none.
void shorten(const float* from, std::size_t count, std::uint16_t* out);

}  // namespace convoy::data
