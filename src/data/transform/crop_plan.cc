#include "data/transform/crop_plan.h"

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

// Halves go to the even neighbor, as in Python, whose torchvision places windows the same.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

// A window of random area and ratio; after ten that don't fit, the largest one in the middle whose
// ratio is allowed.
Window random_window(const TransformOptions& options, int height, int width, RandomStream& random) {
  const double area = static_cast<double>(height) * width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * between(random, options.min_area, options.max_area);
    const double ratio =
        std::exp(between(random, std::log(options.min_ratio), std::log(options.max_ratio)));
    const double w = std::nearbyint(std::sqrt(target * ratio));
    const double h = std::nearbyint(std::sqrt(target / ratio));
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
    window.height = std::clamp(rounded(width / options.min_ratio), 1, height);
  } else if (ratio > options.max_ratio) {
    window.width = std::clamp(rounded(height * options.max_ratio), 1, width);
  }
  window.left = (width - window.width) / 2;
  window.top = (height - window.height) / 2;
  return window;
}

Window middle(int height, int width, const Shape& out) {
  return {rounded((width - out.width) / 2.0), rounded((height - out.height) / 2.0), out.width,
          out.height};
}

// The picture with its short side resized, and the window that Crop::center, fixed or ten takes.
CropPlan plan_resized(const TransformOptions& options, int height, int width, const Shape& out) {
  CropPlan crop;
  crop.window = {0, 0, width, height};
  const int shorter = std::min(height, width);
  double out_height = height, out_width = width;
  if (options.resize > 0 && options.resize != shorter) {
    crop.resize = true;
    // The product first: it is exact. The long side may be that of a sliver a million pixels long.
    const double resize = options.resize;
    out_height = height == shorter ? resize : std::floor(resize * height / shorter);
    out_width = width == shorter ? resize : std::floor(resize * width / shorter);
    if (std::max(out_height, out_width) > 1e8) {
      throw UsageError(pixels(height, width) + " can't be resized to a short side of " +
                       std::to_string(options.resize));
    }
  }
  crop.out_height = static_cast<int>(out_height);
  crop.out_width = static_cast<int>(out_width);
  if (crop.out_height < out.height || crop.out_width < out.width) {
    throw UsageError(pixels(height, width) +
                     (crop.resize ? ", resized to " + pixels(crop.out_height, crop.out_width) + ","
                                  : std::string()) +
                     " is smaller than the output of " + pixels(out.height, out.width) +
                     ": a larger `resize` would do");
  }
  if (options.crop == Crop::ten) {
    // All of it is held, where others need the part alone.
    if (out_height * out_width > static_cast<double>(kMaxPixels)) {
      throw UsageError(pixels(height, width) + ", resized to " +
                       pixels(crop.out_height, crop.out_width) + ", are more than " +
                       std::to_string(kMaxPixels) + ": too many for ten crops");
    }
    crop.part = {0, 0, crop.out_width, crop.out_height};
    return crop;
  }
  crop.part = middle(crop.out_height, crop.out_width, out);
  if (options.crop != Crop::fixed) return crop;
  crop.part.left = options.left;
  crop.part.top = options.top;
  if (options.left > crop.out_width - out.width || options.top > crop.out_height - out.height) {
    throw UsageError("the window of " + pixels(out.height, out.width) + " at (" +
                     std::to_string(options.left) + ", " + std::to_string(options.top) +
                     ") is not inside " + pixels(crop.out_height, crop.out_width));
  }
  return crop;
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

CropPlan plan_crop(const TransformOptions& options, int height, int width, const Shape& out,
                   RandomStream& random) {
  CropPlan crop;
  switch (options.crop) {
    case Crop::none:
      if (height != out.height || width != out.width) {
        throw UsageError("the example has " + pixels(height, width) + ", the batch " +
                         pixels(out.height, out.width) +
                         "; examples of several sizes need a crop, as data.augment.crop = "
                         "\"random_resized\" and data.evaluate.crop = \"center\"");
      }
      crop.part = {0, 0, width, height};
      break;
    case Crop::random_resized:
      crop.window = random_window(options, height, width, random);
      crop.resize = crop.window.height != out.height || crop.window.width != out.width;
      crop.out_height = out.height;
      crop.out_width = out.width;
      crop.part = crop.resize ? Window{0, 0, out.width, out.height} : crop.window;
      break;
    case Crop::random_padded: {
      const int spare_width = width + 2 * options.padding - out.width;
      const int spare_height = height + 2 * options.padding - out.height;
      if (spare_width < 0 || spare_height < 0) {
        throw UsageError(pixels(height, width) + " with " + std::to_string(options.padding) +
                         " more on each side are fewer than the output's " +
                         pixels(out.height, out.width));
      }
      crop.part.left = up_to(random, spare_width) - options.padding;
      crop.part.top = up_to(random, spare_height) - options.padding;
      crop.part.width = out.width;
      crop.part.height = out.height;
      break;
    }
    case Crop::center:
    case Crop::fixed:
    case Crop::ten:
      crop = plan_resized(options, height, width, out);
      break;
  }
  if (options.flip) crop.flip = (random() >> 63) != 0;
  return crop;
}

}  // namespace convoy::data
