#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "convoy/base/error.h"
#include "convoy/data/transform.h"
#include "data/decode/decode.h"
#include "data/decode/large_pictures.h"
#include "data/kept_memory.h"
#include "data/transform/color.h"
#include "data/transform/crop_plan.h"
#include "data/transform/emitter.h"
#include "data/transform/kernels.h"
#include "data/transform/resizer.h"
#include "data/transform/view.h"

namespace convoy::data {
namespace {

bool compressed(const Record& record) {
  return record.encoding == Encoding::jpeg || record.encoding == Encoding::png;
}

std::string text_of(int width, int height) {
  return std::to_string(width) + " x " + std::to_string(height);
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
  View view{record.bytes.data(), 0, 0, 0, s.height, s.width, s.channels};
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

View view_of(const Image& image) {
  const std::ptrdiff_t column = image.channels;
  return {reinterpret_cast<const std::byte*>(image.pixels.data()),
          1,
          column * image.width,
          column,
          image.height,
          image.width,
          image.channels};
}

Shape checked(const TransformOptions& options, const Shape& first) {
  Shape shape = first;
  if (options.channels != 0) shape.channels = options.channels;
  if (options.height != 0) shape.height = options.height;
  if (options.width != 0) shape.width = options.width;
  // Now that the channels are known, the numbers per channel can be checked for good.
  for (const auto* values : {&options.mean, &options.deviation}) {
    if (values->size() != 1 && values->size() != static_cast<std::size_t>(shape.channels)) {
      throw UsageError(std::string("transform: ") +
                       (values == &options.mean ? "mean" : "deviation") + " has " +
                       std::to_string(values->size()) + " numbers, the data " +
                       std::to_string(shape.channels) + " channels");
    }
  }
  if (ColorChange::wanted(options) && shape.channels != 3) {
    throw UsageError("transform: colors can be changed with 3 channels; the output has " +
                     std::to_string(shape.channels));
  }
  return shape;
}

}  // namespace

struct Transformer::Impl {
  Impl(const TransformOptions& transform, const Shape& first);

  // What becomes of a record that shows a picture of this shape. Throws UsageError where it can't.
  CropPlan plan(const Record& record, const Shape& picture, RandomStream& random);
  // Takes `turn` for a picture that is large once it is decoded.
  void apply(const Record& record, RandomStream& random, Layout layout, std::byte* out,
             std::optional<LargePicture>& turn);
  void apply_floats(const Record& record, const CropPlan& crop, Layout layout, std::byte* out);
  // Puts `source` of the record's picture into `image`, interleaved, in the output's channels; or
  // more of it. Returns where in the picture `image` begins.
  Window fetch(const Record& record, const Window& source);
  // Gets the resizer ready to make rows.
  void begin_resizing(const Record& record);
  void resize_all(const CropPlan& crop);
  void emit_resized(Layout layout, std::byte* out);
  void emit_windows(const View& view, const CropPlan& crop, Layout layout, std::byte* out);
  void emit_window(const View& view, const Window& part, bool flip, Layout layout, std::byte* out);
  const ColorMap* color_of(const View& view, const Window& part);

  TransformOptions options;
  Shape shape;
  Emitter emitter;
  JpegDecoder jpeg;
  Resizer resizer;
  std::optional<ColorChange> color;  // of this record
  ColorMap map{};
  Image image;
  Image resized;
  std::vector<std::uint8_t> row;
};

Transformer::Impl::Impl(const TransformOptions& transform, const Shape& first)
    : options(transform),
      shape(checked(transform, first)),
      emitter(shape, transform.mean, transform.deviation, transform.pixel) {
  options.channels = shape.channels;
  row.resize(static_cast<std::size_t>(shape.width) * static_cast<std::size_t>(shape.channels) +
             kRowPadding);
}

Window Transformer::Impl::fetch(const Record& record, const Window& source) {
  if (!compressed(record)) {
    convert(view_of(record), source, shape.channels, image);
    return source;
  }
  if (is_png(record.bytes)) {
    decode_png(record.bytes, shape.channels, image);
    return {0, 0, image.width, image.height};
  }
  if (source.width == jpeg.size().width && source.height == jpeg.size().height) {
    jpeg.decode(shape.channels, image);
    return source;
  }
  return jpeg.decode(shape.channels, source, image);
}

const ColorMap* Transformer::Impl::color_of(const View& view, const Window& part) {
  if (!color) return nullptr;
  map = color->map(color->needs_mean() ? mean_of(view, part) : std::array<double, 3>{});
  return &map;
}

// Part of a picture that has the output's channels.
void Transformer::Impl::emit_window(const View& view, const Window& part, bool flip, Layout layout,
                                    std::byte* out) {
  emitter.begin(layout, color_of(view, part), out);
  for (int y = 0; y < shape.height; ++y) {
    take_row<std::uint8_t>(view, part, y, flip, emitter.planar(), row.data());
    emitter.row(y, row.data(), static_cast<std::size_t>(shape.width));
  }
}

void Transformer::Impl::emit_windows(const View& view, const CropPlan& crop, Layout layout,
                                     std::byte* out) {
  if (options.crop != Crop::ten) return emit_window(view, crop.part, crop.flip, layout, out);
  const std::size_t bytes = shape.elements() * size_of(options.pixel);
  for (const bool flip : {false, true}) {
    for (Window part : five_windows(crop.part.height, crop.part.width, shape)) {
      part.left += crop.part.left;
      part.top += crop.part.top;
      emit_window(view, part, flip, layout, out);
      out += bytes;
    }
  }
}

void Transformer::Impl::begin_resizing(const Record& record) {
  const Window source = resizer.source();
  const Window held = fetch(record, source);
  const std::ptrdiff_t column = image.channels;
  const std::ptrdiff_t stride = column * image.width;
  resizer.begin(
      image.pixels.data() + (source.top - held.top) * stride + (source.left - held.left) * column,
      static_cast<std::size_t>(stride), image.channels);
}

// Rows go out as they are made.
void Transformer::Impl::emit_resized(Layout layout, std::byte* out) {
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t stride = resizer.plane_stride();
  emitter.begin(layout, color_of({}, {}), out);
  const auto channels = static_cast<std::size_t>(shape.channels);
  const bool join = !emitter.planar() && channels > 1;
  for (int y = 0; y < shape.height; ++y) {
    const std::uint8_t* const planes = resizer.row(y);
    if (join) join_row(planes, stride, width, channels, row.data());
    emitter.row(y, join ? row.data() : planes, stride);
  }
}

// For what needs all pixels at once.
void Transformer::Impl::resize_all(const CropPlan& crop) {
  resized.height = crop.part.height;
  resized.width = crop.part.width;
  resized.channels = shape.channels;
  const auto width = static_cast<std::size_t>(resized.width);
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t bytes = width * channels;
  resized.pixels.resize(bytes * static_cast<std::size_t>(resized.height) + kRowPadding);
  std::uint8_t* to = resized.pixels.data();
  for (int y = 0; y < resized.height; ++y, to += bytes) {
    join_row(resizer.row(y), resizer.plane_stride(), width, channels, to);
  }
}

void Transformer::Impl::apply_floats(const Record& record, const CropPlan& crop, Layout layout,
                                     std::byte* out) {
  const View view = view_of(record);
  emitter.begin(layout, nullptr, out);
  std::vector<float> values(static_cast<std::size_t>(shape.width) *
                            static_cast<std::size_t>(shape.channels));
  for (int y = 0; y < shape.height; ++y) {
    take_row<float>(view, crop.part, y, crop.flip, emitter.planar(), values.data());
    emitter.row(y, values.data(), static_cast<std::size_t>(shape.width));
  }
}

CropPlan Transformer::Impl::plan(const Record& record, const Shape& picture, RandomStream& random) {
  if (picture.channels != shape.channels && (std::max(picture.channels, shape.channels) != 3 ||
                                             std::min(picture.channels, shape.channels) != 1)) {
    throw UsageError("the example has " + std::to_string(picture.channels) +
                     " channels, the batch " + std::to_string(shape.channels));
  }
  const CropPlan crop = plan_crop(options, picture.height, picture.width, shape, random);
  color.reset();
  if (ColorChange::wanted(options)) color.emplace(options, random);
  if (record.encoding == Encoding::planar_f32 &&
      (crop.resize || picture.channels != shape.channels || color || options.crop == Crop::ten ||
       options.pixel == Pixel::u8)) {
    const std::string sizes = crop.resize
                                  ? " (here from " + text_of(picture.width, picture.height) +
                                        " to " + text_of(crop.out_width, crop.out_height) + ")"
                                  : "";
    throw UsageError(
        "examples of floats can be cropped, mirrored and normalized, but neither resized" + sizes +
        ", colored, cropped in ten nor converted to bytes or other channels");
  }
  return crop;
}

void Transformer::Impl::apply(const Record& record, RandomStream& random, Layout layout,
                              std::byte* out, std::optional<LargePicture>& turn) {
  if (!compressed(record)) check_bytes(record);
  const Shape picture =
      compressed(record) && is_jpeg(record.bytes) ? jpeg.open(record.bytes) : shape_of(record);
  CropPlan crop = plan(record, picture, random);
  if (record.encoding == Encoding::planar_f32) return apply_floats(record, crop, layout, out);
  if (compressed(record)) {
    Shape decoded = picture;
    decoded.channels = std::max(picture.channels, shape.channels);
    if (decoded.elements() > kKeptBytes) turn.emplace(decoded.elements());
  }
  if (!compressed(record) && !crop.resize && picture.channels == shape.channels) {
    return emit_windows(view_of(record), crop, layout, out);
  }
  if (!crop.resize) {
    const Window held = fetch(record, inside(crop.part, picture));
    View view = view_of(image);
    // Only what lies outside of the picture is padding: the rest is there.
    crop.part.left -= held.left;
    crop.part.top -= held.top;
    return emit_windows(view, crop, layout, out);
  }
  const bool at_once = options.crop == Crop::ten || (color && color->needs_mean());
  resizer.plan(picture.height, picture.width, crop.window, crop.out_height, crop.out_width,
               crop.part, crop.flip && !at_once);
  begin_resizing(record);
  if (!at_once) return emit_resized(layout, out);
  resize_all(crop);
  crop.part.left = crop.part.top = 0;
  emit_windows(view_of(resized), crop, layout, out);
}

Transformer::Transformer(const TransformOptions& options, const Shape& first) {
  validate(options);
  impl_ = std::make_unique<Impl>(options, first);
}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;
Transformer& Transformer::operator=(Transformer&&) noexcept = default;

Shape Transformer::shape() const { return impl_->shape; }

int Transformer::views() const { return impl_->options.crop == Crop::ten ? 10 : 1; }

void Transformer::check(const Record& record) {
  if (!compressed(record)) check_bytes(record);
  RandomStream random(0);
  impl_->plan(record, shape_of(record), random);
}

void Transformer::apply(const Record& record, RandomStream& random, Layout layout, void* out) {
  std::optional<LargePicture> turn;
  struct GivesBack {
    ~GivesBack() {
      give_back(impl.image.pixels);
      give_back(impl.resized.pixels);
    }
    Impl& impl;
  };
  // Of a bad record, too, and before it is another one's turn.
  const GivesBack gives_back{*impl_};
  impl_->apply(record, random, layout, static_cast<std::byte*>(out), turn);
  flush();
}

}  // namespace convoy::data
