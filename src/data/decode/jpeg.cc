// libjpeg reports errors by a callback that must not return: it leaves by longjmp, so no object
// with a destructor may live in a function that guarded() runs.
#include <csetjmp>
#include <cstdio>

// After <cstdio>, which it needs without saying so.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "data/decode/decode.h"
#include "data/decode/orientation.h"
#include "data/kept_memory.h"

namespace convoy::data {
namespace {

// Progressive pictures in the wild have about 10 scans; each one costs a pass over all of the
// picture, so that a small file with thousands of them would take minutes.
constexpr int kMaxScans = 100;
constexpr JDIMENSION kRows = 8;
constexpr std::size_t kFewBlocks = std::size_t{1} << 14;  // of 8 x 8 pixels
constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kWholeMarker = 0xffff;

struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  bool in_header = false;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Warnings (negative levels) stand for damaged data and count as errors, except those that leave
// every pixel known: oddities of metadata, and padding between the header's segments or before the
// end marker.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const auto* errors = reinterpret_cast<const ErrorManager*>(info->err);
  const int code = info->err->msg_code;
  if (code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_NOT_SEQUENTIAL) return;
  if (code == JWRN_EXTRANEOUS_DATA && (errors->in_header || info->err->msg_parm.i[1] == JPEG_EOI)) {
    return;
  }
  leave(info);
}

void ignore_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMaxScans);
  std::longjmp(errors->jump, 1);
}

// Four channels as JPEG files hold them, inverted: what image programs write, and what Pillow and
// torchvision read, marked as Adobe's or not.
void cmyk_to(int channels, const std::uint8_t* from, std::size_t pixels, std::uint8_t* to) {
  const auto mix = [](unsigned color, unsigned black) {
    const unsigned product = color * black + 128;
    return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
  };
  for (std::size_t i = 0; i < pixels; ++i, from += 4, to += channels) {
    const std::uint8_t red = mix(from[0], from[3]);
    const std::uint8_t green = mix(from[1], from[3]);
    const std::uint8_t blue = mix(from[2], from[3]);
    if (channels == 1) {
      to[0] = luma(red, green, blue);
    } else {
      to[0] = red;
      to[1] = green;
      to[2] = blue;
    }
  }
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  ErrorManager errors{};
  jpeg_progress_mgr progress{};
  std::size_t file_size = 0;
  Orientation orientation;          // of the picture that is open
  std::vector<std::uint8_t> four;   // scratch: a row of four channels
  std::vector<std::uint8_t> lying;  // scratch: pixels before they are turned

  template <typename Function>
  void guarded(Function function) {
    if (setjmp(errors.jump) != 0) {
      jpeg_abort_decompress(&info);
      throw UsageError(std::string("JPEG: ") + errors.message);
    }
    function();
  }

  void check() const;
  Shape stored() const;
  Orientation find_orientation() const;
  int choose_output(int channels);
  Window decode(int channels, const Window& window, bool to_end, Image& image);
};

// Before memory is allocated for the pixels: more of them than the file could possibly hold means a
// forged or truncated file. Huffman codes take at least two bits for each 8 x 8 block of a
// component, and one where it is progressive. Arithmetic codes may take less for pictures of one
// color, but the decoder makes up what is missing without a word: such a file may be as good as
// empty, so that only small ones are believed.
void JpegDecoder::State::check() const {
  check_size("JPEG", info.image_height, info.image_width);
  if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4) {
    throw UsageError("JPEG: " + std::to_string(info.num_components) +
                     " color components; 1, 3 and 4 can be decoded");
  }
  std::size_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    blocks += std::size_t{component.width_in_blocks} * component.height_in_blocks;
  }
  const std::size_t bits = info.arith_code || info.progressive_mode ? blocks : 2 * blocks;
  const bool small = info.arith_code && blocks < kFewBlocks;
  if (!small && bits / 8 > file_size) {
    throw UsageError("JPEG: truncated: " + std::to_string(file_size) + " bytes can't hold " +
                     std::to_string(info.image_width) + " x " + std::to_string(info.image_height) +
                     " pixels");
  }
}

// Sets libjpeg's color conversion; returns the channels of the result.
int JpegDecoder::State::choose_output(int channels) {
  if (channels == 0) channels = info.num_components == 1 ? 1 : 3;
  if (info.num_components == 4) {
    info.out_color_space = JCS_CMYK;
  } else {
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  }
  return channels;
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.info.err = jpeg_std_error(&s.errors.base);
  s.errors.base.error_exit = leave;
  s.errors.base.emit_message = on_message;
  s.errors.base.output_message = ignore_output;
  s.guarded([&s] {
    jpeg_create_decompress(&s.info);
    jpeg_save_markers(&s.info, kExifMarker, kWholeMarker);
  });
  s.progress.progress_monitor = on_progress;
  s.info.progress = &s.progress;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

Shape JpegDecoder::open(std::span<const std::byte> bytes) {
  State& s = *state_;
  s.file_size = bytes.size();
  s.guarded([&s, bytes] {
    jpeg_abort_decompress(&s.info);  // whatever the last picture left
    jpeg_mem_src(&s.info, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    s.errors.in_header = true;
    jpeg_read_header(&s.info, TRUE);
    s.errors.in_header = false;
  });
  s.check();
  s.orientation = s.find_orientation();
  return size();
}

Shape JpegDecoder::State::stored() const {
  return {info.num_components == 1 ? 1 : 3, static_cast<int>(info.image_height),
          static_cast<int>(info.image_width)};
}

// The first segment with Exif: another kind of segment has the same marker.
Orientation JpegDecoder::State::find_orientation() const {
  constexpr char kExif[] = {'E', 'x', 'i', 'f', 0, 0};
  for (const jpeg_marker_struct* m = info.marker_list; m != nullptr; m = m->next) {
    if (m->marker != kExifMarker || m->data_length < sizeof kExif ||
        std::memcmp(m->data, kExif, sizeof kExif) != 0) {
      continue;
    }
    return read_orientation(std::as_bytes(std::span(m->data, m->data_length)));
  }
  return {};
}

Shape JpegDecoder::size() const { return upright_shape(state_->orientation, state_->stored()); }

Window JpegDecoder::stored(const Window& window) const {
  return stored_window(state_->orientation, state_->stored(), window);
}

bool JpegDecoder::turned() const { return !state_->orientation.upright(); }

int JpegDecoder::components() const { return state_->info.num_components; }

void JpegDecoder::decode(int channels, Image& image) {
  State& s = *state_;
  const Shape stored = s.stored();
  s.decode(channels, {0, 0, stored.width, stored.height}, true, image);
  turn(s.orientation, image, s.lying);
  give_back(s.lying);
}

Window JpegDecoder::decode(int channels, const Window& window, Image& image) {
  State& s = *state_;
  const Shape stored = s.stored();
  const Window held =
      s.decode(channels, stored_window(s.orientation, stored, window), false, image);
  turn(s.orientation, image, s.lying);
  give_back(s.lying);
  return upright_window(s.orientation, stored, held);
}

// Of the picture as it is stored. to_end: also what follows the window is read, so that damage
// there is found.
Window JpegDecoder::State::decode(int channels, const Window& window, bool to_end, Image& image) {
  channels = choose_output(channels);
  const bool convert = info.out_color_space == JCS_CMYK;
  JDIMENSION left = static_cast<JDIMENSION>(window.left);
  JDIMENSION columns = static_cast<JDIMENSION>(window.width);
  guarded([&] {
    jpeg_start_decompress(&info);
    // Upsampling looks at the neighboring chroma sample, which a cut hides: of the pixels at a cut,
    // the outermost come out different.
    const JDIMENSION end = std::min(
        info.output_width, left + columns + static_cast<JDIMENSION>(info.max_h_samp_factor));
    const auto block = static_cast<JDIMENSION>(info.max_h_samp_factor * DCTSIZE);
    if (left > 0 && left % block == 0) --left;
    columns = end - left;
    if (columns < info.output_width) jpeg_crop_scanline(&info, &left, &columns);
  });
  const auto rows = static_cast<JDIMENSION>(window.height);
  const std::size_t stride = std::size_t{columns} * static_cast<std::size_t>(channels);
  image.height = window.height;
  image.width = static_cast<int>(columns);
  image.channels = channels;
  image.pixels.resize(stride * rows);
  if (convert) four.resize(std::size_t{columns} * 4);
  std::uint8_t* const out = image.pixels.data();
  guarded([&] {
    if (window.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.top));
    for (JDIMENSION y = 0; y < rows;) {
      if (convert) {
        JSAMPROW row = four.data();
        jpeg_read_scanlines(&info, &row, 1);
        cmyk_to(channels, row, columns, out + y++ * stride);
        continue;
      }
      JSAMPROW next[kRows];
      const JDIMENSION count = std::min(kRows, rows - y);
      for (JDIMENSION i = 0; i < count; ++i) next[i] = out + (y + i) * stride;
      y += jpeg_read_scanlines(&info, next, count);
    }
    to_end ? static_cast<void>(jpeg_finish_decompress(&info)) : jpeg_abort_decompress(&info);
  });
  return {static_cast<int>(left), window.top, static_cast<int>(columns), window.height};
}

}  // namespace convoy::data
