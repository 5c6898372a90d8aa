#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "convoy/base/error.h"
#include "convoy/data/transform.h"
#include "data/decode/decode.h"
#include "data/transform/cut.h"
#include "data/transform/emit.h"
#include "data/transform/resizer.h"

namespace convoy::data {
namespace {

bool compressed(const Record& record) {
  return record.encoding == Encoding::jpeg || record.encoding == Encoding::png;
}

float of_channel(const std::vector<float>& values, int channel) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
}

void check_bytes(const Record& record) {
  const Shape& s = record.shape;
  if (s.channels < 1 || s.height < 1 || s.width < 1) {
    throw UsageError("the record has a shape without elements");
  }
  const std::size_t each = record.encoding == Encoding::planar_f32 ? sizeof(float) : 1;
  if (record.bytes.size() != s.elements() * each) {
    throw UsageError("the record has " + std::to_string(record.bytes.size()) +
                     " bytes, its shape " + std::to_string(s.elements() * each));
  }
}

View view_of(const Record& record) {
  const Shape& s = record.shape;
  View view{record.bytes.data(), 0, 0, 0, s.height, s.width};
  if (record.encoding == Encoding::interleaved_u8) {
    view.channel = 1;
    view.column = s.channels;
    view.row = view.column * s.width;
  } else {
    view.column = 1;
    view.row = s.width;
    view.channel = view.row * s.height;
  }
  return view;
}

}  // namespace

struct Transformer::Impl {
  Impl(const TransformOptions& transform, const Shape& first);

  void apply(const Record& record, RandomStream& random, Layout layout, float* out);
  // Puts `source` of the record's picture into `image`, interleaved, in the output's channels; or
  // more of it. Returns where in the picture `image` begins.
  Window fetch(const Record& record, const Window& source);
  void fetch_pixels(const Record& record, const Window& source);
  void emit_bytes(const View& view, const Cut& cut, const Window& part, Layout layout, float* out);

  TransformOptions options;
  Shape shape;
  std::vector<std::array<float, 256>> table;  // what each byte becomes, per channel
  JpegDecoder jpeg;
  Resizer resizer;
  Image image;
  std::vector<std::uint8_t> resized;
};

Transformer::Impl::Impl(const TransformOptions& transform, const Shape& first)
    : options(transform), shape(first) {
  if (options.channels != 0) shape.channels = options.channels;
  if (options.height != 0) shape.height = options.height;
  if (options.width != 0) shape.width = options.width;
  options.channels = shape.channels;
  // Now that the channels are known, the numbers per channel can be checked for good.
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (const auto* values : {&options.mean, &options.deviation}) {
    if (values->size() != 1 && values->size() != channels) {
      throw UsageError(std::string("transform: ") +
                       (values == &options.mean ? "mean" : "deviation") + " has " +
                       std::to_string(values->size()) + " numbers, the data " +
                       std::to_string(channels) + " channels");
    }
  }
  table.resize(channels);
  for (int c = 0; c < shape.channels; ++c) {
    for (int value = 0; value < 256; ++value) {
      table[static_cast<std::size_t>(c)][static_cast<std::size_t>(value)] =
          (static_cast<float>(value) / 255.0f - of_channel(options.mean, c)) /
          of_channel(options.deviation, c);
    }
  }
}

void Transformer::Impl::fetch_pixels(const Record& record, const Window& source) {
  const View view = view_of(record);
  const int channels = record.shape.channels;
  image.height = source.height;
  image.width = source.width;
  image.channels = shape.channels;
  image.pixels.resize(static_cast<std::size_t>(source.height) *
                      static_cast<std::size_t>(source.width) *
                      static_cast<std::size_t>(shape.channels));
  std::uint8_t* to = image.pixels.data();
  for (int y = 0; y < source.height; ++y) {
    for (int x = 0; x < source.width; ++x) {
      const std::byte* from =
          view.data + (source.top + y) * view.row + (source.left + x) * view.column;
      const auto at = [&](int c) { return std::to_integer<std::uint8_t>(from[c * view.channel]); };
      if (channels == shape.channels) {
        for (int c = 0; c < channels; ++c) *to++ = at(c);
      } else if (channels == 1) {
        for (int c = 0; c < shape.channels; ++c) *to++ = at(0);
      } else {
        *to++ = luma(at(0), at(1), at(2));
      }
    }
  }
}

Window Transformer::Impl::fetch(const Record& record, const Window& source) {
  if (!compressed(record)) {
    fetch_pixels(record, source);
    return source;
  }
  if (is_png(record.bytes)) {
    decode_png(record.bytes, shape.channels, image);
    return {0, 0, image.width, image.height};
  }
  if (source.width == jpeg.size().width && source.height == jpeg.size().height) {
    jpeg.decode(shape.channels, image);
  } else {
    jpeg.decode(shape.channels, source, image);
  }
  return source;
}

void Transformer::Impl::emit_bytes(const View& view, const Cut& cut, const Window& part,
                                   Layout layout, float* out) {
  emit<std::uint8_t>(
      view, part, shape.channels, cut.flip, layout,
      [this](int c, std::uint8_t value) { return table[static_cast<std::size_t>(c)][value]; }, out);
}

void Transformer::Impl::apply(const Record& record, RandomStream& random, Layout layout,
                              float* out) {
  if (!compressed(record)) check_bytes(record);
  const Shape picture =
      compressed(record) && is_jpeg(record.bytes) ? jpeg.open(record.bytes) : shape_of(record);
  if (picture.channels != shape.channels && (std::max(picture.channels, shape.channels) != 3 ||
                                             std::min(picture.channels, shape.channels) != 1)) {
    throw UsageError("the example has " + std::to_string(picture.channels) +
                     " channels, the batch " + std::to_string(shape.channels));
  }
  const Cut cut = choose_cut(options, picture.height, picture.width, shape, random);
  const bool direct = !compressed(record) && !cut.resize && picture.channels == shape.channels;
  if (record.encoding == Encoding::planar_f32) {
    if (!direct) {
      throw UsageError(
          "examples of floats can be cut, mirrored and normalized, but neither resized "
          "nor converted to other channels");
    }
    emit<float>(
        view_of(record), cut.part, shape.channels, cut.flip, layout,
        [this](int c, float value) {
          return (value - of_channel(options.mean, c)) / of_channel(options.deviation, c);
        },
        out);
    return;
  }
  if (direct) {
    emit_bytes(view_of(record), cut, cut.part, layout, out);
    return;
  }

  Window source{0, 0, picture.width, picture.height};
  if (cut.resize) {
    resizer.plan(picture.height, picture.width, cut.window, cut.out_height, cut.out_width,
                 cut.part);
    source = resizer.source();
  } else {
    const int right = std::min(cut.part.left + cut.part.width, picture.width);
    const int bottom = std::min(cut.part.top + cut.part.height, picture.height);
    source.left = std::max(0, cut.part.left);
    source.top = std::max(0, cut.part.top);
    // A window all in the padding needs no pixel; one is simpler than none.
    source.left = std::min(source.left, picture.width - 1);
    source.top = std::min(source.top, picture.height - 1);
    source.width = std::max(1, right - source.left);
    source.height = std::max(1, bottom - source.top);
  }
  const Window held = fetch(record, source);
  const std::ptrdiff_t column = image.channels;
  const std::ptrdiff_t row = column * image.width;
  if (!cut.resize) {
    const View view{reinterpret_cast<const std::byte*>(image.pixels.data()),
                    1,
                    row,
                    column,
                    image.height,
                    image.width};
    Window part = cut.part;
    part.left -= held.left;
    part.top -= held.top;
    emit_bytes(view, cut, part, layout, out);
    return;
  }
  resizer.run(
      image.pixels.data() + (source.top - held.top) * row + (source.left - held.left) * column,
      static_cast<std::size_t>(row), image.channels, resized);
  const View view{reinterpret_cast<const std::byte*>(resized.data()),
                  1,
                  column * shape.width,
                  column,
                  shape.height,
                  shape.width};
  emit_bytes(view, cut, {0, 0, shape.width, shape.height}, layout, out);
}

Transformer::Transformer(const TransformOptions& options, const Shape& first) {
  validate(options);
  impl_ = std::make_unique<Impl>(options, first);
}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;
Transformer& Transformer::operator=(Transformer&&) noexcept = default;

Shape Transformer::shape() const { return impl_->shape; }

void Transformer::apply(const Record& record, RandomStream& random, Layout layout, float* out) {
  impl_->apply(record, random, layout, out);
}

}  // namespace convoy::data
