#include "data/transform/cut.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

std::string pixels(int height, int width) {
  return std::to_string(width) + " x " + std::to_string(height) + " pixels";
}

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

// 0 .. most, both included.
int up_to(RandomStream& random, int most) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(most) + 1));
}

// A window of random area and ratio; after ten that don't fit, the largest one in the middle whose
// ratio is allowed.
Window random_window(const TransformOptions& options, int height, int width, RandomStream& random) {
  const double area = static_cast<double>(height) * width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * between(random, options.min_area, options.max_area);
    const double ratio =
        std::exp(between(random, std::log(options.min_ratio), std::log(options.max_ratio)));
    const double w = std::round(std::sqrt(target * ratio));
    const double h = std::round(std::sqrt(target / ratio));
    if (w >= 1 && h >= 1 && w <= width && h <= height) {
      Window window{0, 0, static_cast<int>(w), static_cast<int>(h)};
      window.left = up_to(random, width - window.width);
      window.top = up_to(random, height - window.height);
      return window;
    }
  }
  const double ratio = static_cast<double>(width) / height;
  Window window{0, 0, width, height};
  if (ratio < options.min_ratio) {
    window.height = std::clamp(static_cast<int>(std::round(width / options.min_ratio)), 1, height);
  } else if (ratio > options.max_ratio) {
    window.width = std::clamp(static_cast<int>(std::round(height * options.max_ratio)), 1, width);
  }
  window.left = (width - window.width) / 2;
  window.top = (height - window.height) / 2;
  return window;
}

Window middle(int height, int width, const Shape& out) {
  return {(width - out.width) / 2, (height - out.height) / 2, out.width, out.height};
}

// The picture with its short side resized, and the window that Crop::center, fixed or ten takes.
Cut resized_cut(const TransformOptions& options, int height, int width, const Shape& out) {
  Cut cut;
  cut.window = {0, 0, width, height};
  const int shorter = std::min(height, width);
  double out_height = height, out_width = width;
  if (options.resize > 0 && options.resize != shorter) {
    cut.resize = true;
    const double scale = static_cast<double>(options.resize) / shorter;
    // The long side may be anything up to a sliver a million pixels long.
    out_height = height == shorter ? options.resize : std::floor(height * scale);
    out_width = width == shorter ? options.resize : std::floor(width * scale);
    if (std::max(out_height, out_width) > 1e8) {
      throw UsageError(pixels(height, width) + " can't be resized to a short side of " +
                       std::to_string(options.resize));
    }
  }
  cut.out_height = static_cast<int>(out_height);
  cut.out_width = static_cast<int>(out_width);
  if (cut.out_height < out.height || cut.out_width < out.width) {
    throw UsageError(pixels(height, width) +
                     (cut.resize ? ", resized to " + pixels(cut.out_height, cut.out_width) + ","
                                 : std::string()) +
                     " is smaller than the output of " + pixels(out.height, out.width) +
                     ": a larger `resize` would do");
  }
  if (options.crop == Crop::ten) {
    cut.part = {0, 0, cut.out_width, cut.out_height};
    return cut;
  }
  cut.part = middle(cut.out_height, cut.out_width, out);
  if (options.crop != Crop::fixed) return cut;
  cut.part.left = options.left;
  cut.part.top = options.top;
  if (options.left > cut.out_width - out.width || options.top > cut.out_height - out.height) {
    throw UsageError("the window of " + pixels(out.height, out.width) + " at (" +
                     std::to_string(options.left) + ", " + std::to_string(options.top) +
                     ") is not inside " + pixels(cut.out_height, cut.out_width));
  }
  return cut;
}

}  // namespace

std::vector<Window> five_windows(int height, int width, const Shape& out) {
  const int right = width - out.width, bottom = height - out.height;
  return {{0, 0, out.width, out.height},
          {right, 0, out.width, out.height},
          {0, bottom, out.width, out.height},
          {right, bottom, out.width, out.height},
          middle(height, width, out)};
}

Cut choose_cut(const TransformOptions& options, int height, int width, const Shape& out,
               RandomStream& random) {
  Cut cut;
  switch (options.crop) {
    case Crop::none:
      if (height != out.height || width != out.width) {
        throw UsageError("the example has " + pixels(height, width) + ", the batch " +
                         pixels(out.height, out.width) + "; examples of several sizes need a crop");
      }
      cut.part = {0, 0, width, height};
      break;
    case Crop::random_resized:
      cut.window = random_window(options, height, width, random);
      cut.resize = cut.window.height != out.height || cut.window.width != out.width;
      cut.out_height = out.height;
      cut.out_width = out.width;
      cut.part = cut.resize ? Window{0, 0, out.width, out.height} : cut.window;
      break;
    case Crop::random_padded: {
      const int spare_width = width + 2 * options.padding - out.width;
      const int spare_height = height + 2 * options.padding - out.height;
      if (spare_width < 0 || spare_height < 0) {
        throw UsageError(pixels(height, width) + " with " + std::to_string(options.padding) +
                         " more on each side are fewer than the output's " +
                         pixels(out.height, out.width));
      }
      cut.part.left = up_to(random, spare_width) - options.padding;
      cut.part.top = up_to(random, spare_height) - options.padding;
      cut.part.width = out.width;
      cut.part.height = out.height;
      break;
    }
    case Crop::center:
    case Crop::fixed:
    case Crop::ten:
      cut = resized_cut(options, height, width, out);
      break;
  }
  if (options.flip) cut.flip = (random() >> 63) != 0;
  return cut;
}

}  // namespace convoy::data
