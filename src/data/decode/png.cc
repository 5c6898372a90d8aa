// libpng reports errors by a callback that must not return: it leaves by longjmp, so no object with
// a destructor may live in a function that guarded() runs.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "data/decode/decode.h"
#include "data/decode/orientation.h"

namespace convoy::data {
namespace {

// What a compressed chunk of metadata may inflate to.
constexpr png_alloc_size_t kMaxChunk = png_alloc_size_t{16} << 20;
// Chunks that only say things about the picture, as libpng wants them: names that end with a zero.
constexpr png_byte kUnread[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0pCAL\0sCAL";
constexpr std::size_t kUnreadName = 5;
static_assert(sizeof kUnread % kUnreadName == 0);
// Deflate can't do better.
constexpr std::size_t kMostInflation = 1032;

class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes) : rest_(bytes), size_(bytes.size()) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw Failure("PNG: no memory for the decoder");
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Channels as the file has them: 1 for gray, else 3.
  Shape open() {
    guarded([this] {
      png_set_read_fn(png_, this, read);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_chunk_malloc_max(png_, kMaxChunk);
      // Nobody reads them, and a small file can hold a thousand that inflate to kMaxChunk each.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kUnread,
                                  static_cast<int>(sizeof kUnread / kUnreadName));
      png_read_info(png_, info_);
    });
    const std::size_t height = png_get_image_height(png_, info_);
    const std::size_t width = png_get_image_width(png_, info_);
    check_size("PNG", height, width);
    if (png_get_rowbytes(png_, info_) * height / kMostInflation > size_) {
      throw UsageError("PNG: truncated: " + std::to_string(size_) + " bytes can't hold " +
                       std::to_string(width) + " x " + std::to_string(height) + " pixels");
    }
    const bool color = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    return {color ? 3 : 1, static_cast<int>(height), static_cast<int>(width)};
  }

  // Of the picture that is open. What follows the pixels is not looked at.
  Orientation orientation() {
#ifdef PNG_eXIf_SUPPORTED
    png_uint_32 size = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &size, &exif) != 0 && exif != nullptr)
      return read_orientation(std::as_bytes(std::span(exif, size)));
#endif
    return {};
  }

  // Decodes to as many channels as open() said.
  void decode(const Shape& shape, std::vector<std::uint8_t>& pixels) {
    guarded([this] {
      png_set_expand(png_);  // palettes, fewer than 8 bits, transparent colors
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    const std::size_t stride =
        static_cast<std::size_t>(shape.width) * static_cast<std::size_t>(shape.channels);
    if (png_get_rowbytes(png_, info_) != stride) throw UsageError("PNG: rows of an odd size");
    pixels.resize(shape.elements());
    std::vector<png_bytep> rows(static_cast<std::size_t>(shape.height));
    for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * stride;
    png_bytepp first = rows.data();
    guarded([this, first] {
      png_read_image(png_, first);
      png_read_end(png_, nullptr);
    });
  }

 private:
  template <typename Function>
  void guarded(Function function) {
    if (setjmp(jump_) != 0) throw UsageError(std::string("PNG: ") + message_);
    function();
  }

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof self->message_, "%s", message);
    std::longjmp(self->jump_, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "truncated");
    std::memcpy(to, self->rest_.data(), count);
    self->rest_ = self->rest_.subspan(count);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;
  std::size_t size_;
  std::jmp_buf jump_;
  char message_[200] = {};
};

void to_gray(std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i) {
    pixels[i] = luma(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
  }
  pixels.resize(count);
}

void to_color(std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size();
  pixels.resize(count * 3);
  // From the back, since it happens in place.
  for (std::size_t i = count; i-- > 0;) {
    const std::uint8_t value = pixels[i];
    pixels[3 * i] = pixels[3 * i + 1] = pixels[3 * i + 2] = value;
  }
}

}  // namespace

Shape png_shape(std::span<const std::byte> bytes, bool* turned) {
  PngReader reader(bytes);
  const Shape stored = reader.open();
  const Orientation orientation = reader.orientation();
  if (turned != nullptr) *turned = !orientation.upright();
  return upright_shape(orientation, stored);
}

void decode_png(std::span<const std::byte> bytes, int channels, Image& image) {
  PngReader reader(bytes);
  const Shape shape = reader.open();
  reader.decode(shape, image.pixels);
  if (channels == 1 && shape.channels == 3) to_gray(image.pixels);
  if (channels == 3 && shape.channels == 1) to_color(image.pixels);
  image.height = shape.height;
  image.width = shape.width;
  image.channels = channels == 0 ? shape.channels : channels;
  std::vector<std::uint8_t> scratch;
  turn(reader.orientation(), image, scratch);
}

}  // namespace convoy::data
