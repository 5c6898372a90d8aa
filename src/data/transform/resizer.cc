#include "data/transform/resizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr int kOne = 65536;
constexpr std::size_t kOutputs = ColumnSteps::kOutputs;
constexpr std::size_t kHalf = kOutputs / 2;  // outputs that share a window
constexpr int kWindow = 16;                  // pixels that a window holds
constexpr std::uint8_t kNothing = 128;

}  // namespace

void Resizer::Axis::plan(int input, int begin, int size, int output, int part_begin, int part_size,
                         bool mirror) {
  const double scale = static_cast<double>(size) / output;
  const double widening = std::max(scale, 1.0);  // when shrinking, the filter covers all pixels
  const double narrowing = 1 / widening;
  taps = 2 * static_cast<std::size_t>(std::ceil(widening)) + 1;
  const auto positions = static_cast<std::size_t>(part_size);
  first.resize(positions);
  count.resize(positions);
  weights.resize(positions * taps);
  heights.resize(taps);
  for (std::size_t i = 0; i < positions; ++i) {
    const double center = begin + (part_begin + static_cast<int>(i) + 0.5) * scale;
    const std::size_t at = mirror ? positions - 1 - i : i;
    std::uint16_t* const weight = &weights[at * taps];
    if (scale <= 1) {
      // Two neighbors, weighted by how close they are. Most crops are enlarged: this is quick.
      int low = static_cast<int>(center + 0.5) - 1;
      int right = static_cast<int>((center - 0.5 - low) * kOne + 0.5);
      if (low < 0 || right == kOne) {
        ++low;
        right = 0;
      }
      if (low + 1 == input) right = 0;
      first[at] = low;
      count[at] = right > 0 ? 2 : 1;
      weight[0] = static_cast<std::uint16_t>(std::min(kOne - right, kOne - 1));
      weight[1] = static_cast<std::uint16_t>(right);
      continue;
    }
    const int low = std::max(0, static_cast<int>(center - widening + 0.5));
    const int high =
        std::min({input, static_cast<int>(center + widening + 0.5), low + static_cast<int>(taps)});
    double total = 0;
    const std::size_t most = static_cast<std::size_t>(high - low);
    for (std::size_t t = 0; t < most; ++t) {
      heights[t] = 1 - std::abs(low + static_cast<int>(t) + 0.5 - center) * narrowing;
      total += heights[t];
    }
    // They have to add up to one; the largest takes what rounding leaves.
    int left = kOne;
    std::size_t largest = 0;
    const double factor = kOne / total;
    for (std::size_t t = 0; t < most; ++t) {
      const int part = std::min(static_cast<int>(heights[t] * factor + 0.5), kOne - 1);
      weight[t] = static_cast<std::uint16_t>(part);
      left -= part;
      if (heights[t] > heights[largest]) largest = t;
    }
    weight[largest] = static_cast<std::uint16_t>(std::clamp(weight[largest] + left, 0, kOne - 1));
    std::size_t used = most;
    while (used > 1 && weight[used - 1] == 0) --used;
    first[at] = low;
    count[at] = static_cast<int>(used);
  }
}

int Resizer::Axis::used_begin() const { return *std::min_element(first.begin(), first.end()); }

int Resizer::Axis::used_end() const {
  int end = 0;
  for (std::size_t i = 0; i < first.size(); ++i) end = std::max(end, first[i] + count[i]);
  return end;
}

void Resizer::plan(int picture_height, int picture_width, const Window& window, int out_height,
                   int out_width, const Window& part, bool mirror) {
  rows_.plan(picture_height, window.top, window.height, out_height, part.top, part.height, false);
  columns_.plan(picture_width, window.left, window.width, out_width, part.left, part.width, mirror);
  source_.top = rows_.used_begin();
  source_.left = columns_.used_begin();
  source_.height = rows_.used_end() - source_.top;
  source_.width = columns_.used_end() - source_.left;
  plan_steps();
}

void Resizer::add_step() {
  const std::size_t steps = step_count_++;
  if (steps_.windows.size() < 2 * step_count_) {
    const std::size_t room = 2 * step_count_;
    steps_.windows.resize(room * 2);
    steps_.indexes.resize(room * 2 * kOutputs);
    steps_.weights.resize(room * kOutputs);
  }
  // What a half does not fill does nothing.
  std::fill_n(&steps_.windows[steps * 2], 2, 0u);
  std::fill_n(&steps_.indexes[steps * 2 * kOutputs], 2 * kOutputs, kNothing);
  std::fill_n(&steps_.weights[steps * kOutputs], kOutputs, std::uint16_t{0});
}

// In each step every output takes its next input pixel, if the window reaches it. The window begins
// at the leftmost pixel that is wanted next, so one output at least advances. Up to about twofold
// shrinking there are no more steps than taps.
void Resizer::plan_steps() {
  const std::size_t columns = columns_.first.size();
  const std::size_t groups = (columns + kOutputs - 1) / kOutputs;
  steps_.begin.resize(groups + 1);
  steps_.lost.assign(groups * kOutputs, 0);
  for (std::size_t i = 0; i < columns; ++i)
    steps_.lost[i] = lost_by(static_cast<std::size_t>(columns_.count[i]));
  step_count_ = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t begin = steps_.begin[group] = step_count_;
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t from = group * kOutputs + half * kHalf;
      const std::size_t outputs = std::min(kHalf, columns - std::min(columns, from));
      int next[kHalf], end[kHalf];
      for (std::size_t i = 0; i < outputs; ++i) {
        next[i] = columns_.first[from + i];
        end[i] = next[i] + columns_.count[from + i];
      }
      for (std::size_t step = begin;; ++step) {
        int window = std::numeric_limits<int>::max();
        for (std::size_t i = 0; i < outputs; ++i) {
          if (next[i] < end[i]) window = std::min(window, next[i]);
        }
        if (window == std::numeric_limits<int>::max()) break;
        if (step == step_count_) add_step();
        steps_.windows[step * 2 + half] = static_cast<std::uint32_t>(window - source_.left);
        std::uint8_t* const indexes = &steps_.indexes[(step * kOutputs + half * kHalf) * 2];
        std::uint16_t* const weights = &steps_.weights[step * kOutputs + half * kHalf];
        const std::uint16_t* weight = &columns_.weights[from * columns_.taps];
        for (std::size_t i = 0; i < outputs; ++i, weight += columns_.taps) {
          const int distance = next[i] - window;
          if (next[i] == end[i] || distance >= kWindow) continue;
          // The upper byte of a number of 16 bits.
          indexes[2 * i + 1] = static_cast<std::uint8_t>(distance);
          weights[i] = weight[next[i] - columns_.first[from + i]];
          ++next[i];
        }
      }
    }
  }
  steps_.begin[groups] = step_count_;
}

void Resizer::begin(const std::uint8_t* pixels, std::size_t stride, int channels) {
  pixels_ = pixels;
  stride_ = stride;
  channels_ = static_cast<std::size_t>(channels);
  next_ = source_.top;
  planes_.resize(channels_ * (static_cast<std::size_t>(source_.width) + kRowPadding));
  ring_.resize(rows_.taps * channels_ * plane_stride());
  sources_.resize(rows_.taps);
  result_.resize(channels_ * plane_stride() + kRowPadding);
}

// Row y of the source, its columns mixed.
const std::uint16_t* Resizer::mixed(int y) {
  const std::size_t size = channels_ * plane_stride();
  const auto place = [&](int row) {
    return &ring_[static_cast<std::size_t>(row) % rows_.taps * size];
  };
  const std::size_t width = static_cast<std::size_t>(source_.width);
  const std::size_t plane = width + kRowPadding;
  for (; next_ <= y; ++next_) {
    const std::uint8_t* from = pixels_ + static_cast<std::size_t>(next_ - source_.top) * stride_;
    split_row(from, width, channels_, planes_.data(), plane);
    mix_columns(steps_, planes_.data(), plane, channels_, place(next_));
  }
  return place(y);
}

const std::uint8_t* Resizer::row(int y) {
  const auto at = static_cast<std::size_t>(y);
  const int first = rows_.first[at];
  const auto taps = static_cast<std::size_t>(rows_.count[at]);
  next_ = std::max(next_, first);
  for (std::size_t t = 0; t < taps; ++t) sources_[t] = mixed(first + static_cast<int>(t));
  mix_rows(sources_.data(), &rows_.weights[at * rows_.taps], taps, channels_ * plane_stride(),
           result_.data());
  return result_.data();
}

void resize(const Image& image, const Window& window, int out_height, int out_width,
            std::vector<std::uint8_t>& out) {
  if (image.channels < 1) throw UsageError("resize: an image without channels");
  if (window.left < 0 || window.top < 0 || window.width < 1 || window.height < 1 ||
      window.width > image.width - window.left || window.height > image.height - window.top) {
    throw UsageError("resize: the window " + std::to_string(window.width) + " x " +
                     std::to_string(window.height) + " at (" + std::to_string(window.left) + ", " +
                     std::to_string(window.top) + ") is not inside the image of " +
                     std::to_string(image.width) + " x " + std::to_string(image.height) +
                     " pixels");
  }
  if (out_height < 1 || out_width < 1) {
    throw UsageError("resize: an output of " + std::to_string(out_width) + " x " +
                     std::to_string(out_height) + " pixels; it must have at least one");
  }
  Resizer resizer;
  resizer.plan(image.height, image.width, window, out_height, out_width,
               {0, 0, out_width, out_height});
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t stride = static_cast<std::size_t>(image.width) * channels;
  const Window& source = resizer.source();
  resizer.begin(image.pixels.data() + static_cast<std::size_t>(source.top) * stride +
                    static_cast<std::size_t>(source.left) * channels,
                stride, image.channels);
  const auto width = static_cast<std::size_t>(out_width);
  out.resize(static_cast<std::size_t>(out_height) * width * channels);
  std::uint8_t* to = out.data();
  std::vector<std::uint8_t> joined(channels * width + kRowPadding);
  for (int y = 0; y < out_height; ++y, to += width * channels) {
    join_row(resizer.row(y), resizer.plane_stride(), width, channels, joined.data());
    std::memcpy(to, joined.data(), width * channels);
  }
}

}  // namespace convoy::data
