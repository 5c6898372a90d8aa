#include "cli/bench/made_up_images.h"

#include <span>

#include "convoy/base/random.h"

namespace convoy::cli {
namespace {

// Places at which images begin.
constexpr std::size_t kWindows = 4096;

}  // namespace

MadeUpImages::MadeUpImages(data::Shape shape, std::size_t classes, std::size_t count)
    : shape_(shape), count_(count), pixels_(shape.elements() + kWindows) {
  for (std::size_t i = 0; i < classes; ++i) classes_.push_back(std::to_string(i));
  RandomStream random(shape.elements());
  for (std::byte& pixel : pixels_) pixel = static_cast<std::byte>(random.below(256));
}

data::Record MadeUpImages::read(std::size_t i, std::vector<std::byte>&) const {
  return {pixels().subspan(begin(i), shape_.elements()), data::Encoding::planar_u8, shape_,
          label(i)};
}

std::size_t MadeUpImages::begin(std::size_t i) const { return i % kWindows; }

std::int64_t MadeUpImages::label(std::size_t i) const {
  return static_cast<std::int64_t>(RandomStream(i).below(classes_.size()));
}

}  // namespace convoy::cli
