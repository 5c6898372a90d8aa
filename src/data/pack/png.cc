// libpng leaves by longjmp on an error: no object with a destructor may live in write_png().
#include "data/pack/png.h"

#include <png.h>

#include <csetjmp>
#include <new>
#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

struct Sink {
  std::vector<std::byte> bytes;
  std::string error;
  std::jmp_buf jump;
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto* sink = static_cast<Sink*>(png_get_error_ptr(png));
  try {
    sink->error = message;
  } catch (const std::bad_alloc&) {
    // The message stays empty.
  }
  std::longjmp(sink->jump, 1);
}

void ignore(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep data, std::size_t size) {
  auto* sink = static_cast<Sink*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  bool room = true;
  try {
    sink->bytes.insert(sink->bytes.end(), begin, begin + size);
  } catch (const std::bad_alloc&) {
    room = false;
  }
  if (!room) png_error(png, "no memory");
}

void flush(png_structp) {}

// False on an error, which is in the sink.
bool write_png(png_structp png, png_infop info, const Image& image, Sink& sink) {
  if (setjmp(sink.jump) != 0) return false;
  png_set_write_fn(png, &sink, take, flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const std::size_t stride =
      static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  for (int y = 0; y < image.height; ++y) {
    png_write_row(png, image.pixels.data() + static_cast<std::size_t>(y) * stride);
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  if (image.channels != 1 && image.channels != 3) {
    throw UsageError("PNG: " + std::to_string(image.channels) +
                     " channels; pictures of 1 or 3 can be stored");
  }
  Sink sink;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, fail, ignore);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  const bool written = info != nullptr && write_png(png, info, image, sink);
  png_destroy_write_struct(&png, &info);
  if (!written) throw Failure("PNG: encoding failed: " + sink.error);
  return std::move(sink.bytes);
}

}  // namespace convoy::data
