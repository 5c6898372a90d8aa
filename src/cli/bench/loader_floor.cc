#include "cli/bench/loader_floor.h"

#include <csetjmp>
#include <cstdio>

// After <cstdio>, which it needs without saying so.
#include <jpeglib.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
};

[[noreturn]] void leave(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Errors*>(info->err)->jump, 1);
}

void ignore(j_common_ptr, int) {}

// One decoder, of one thread.
class Decoder {
 public:
  Decoder() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = ignore;
    jpeg_create_decompress(&info_);
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool decode(const CropToDecode& crop) {
    const std::size_t most = static_cast<std::size_t>(crop.window.width + kBlock) *
                             static_cast<std::size_t>(crop.window.height) * 3;
    if (pixels_.size() < most) pixels_.resize(most);
    return decode(crop, pixels_.data());
  }

 private:
  static constexpr int kBlock = 64;  // columns by which a cut may begin earlier

  // Without an object that has a destructor: errors leave by longjmp.
  bool decode(const CropToDecode& crop, JSAMPLE* out) {
    if (setjmp(errors_.jump) != 0) {
      jpeg_abort_decompress(&info_);
      return false;
    }
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(crop.jpeg.data()),
                 static_cast<unsigned long>(crop.jpeg.size()));
    jpeg_read_header(&info_, TRUE);
    if (info_.num_components == 4) leave(reinterpret_cast<j_common_ptr>(&info_));
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    JDIMENSION left = static_cast<JDIMENSION>(crop.window.left);
    JDIMENSION columns = static_cast<JDIMENSION>(crop.window.width);
    jpeg_crop_scanline(&info_, &left, &columns);
    if (crop.window.top > 0) {
      jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(crop.window.top));
    }
    const std::size_t stride = std::size_t{columns} * 3;
    const auto rows = static_cast<JDIMENSION>(crop.window.height);
    for (JDIMENSION y = 0; y < rows;) {
      JSAMPROW next[8];
      const JDIMENSION count = std::min<JDIMENSION>(8, rows - y);
      for (JDIMENSION i = 0; i < count; ++i) next[i] = out + (y + i) * stride;
      const JDIMENSION read = jpeg_read_scanlines(&info_, next, count);
      if (read == 0) leave(reinterpret_cast<j_common_ptr>(&info_));  // the window is not in it
      y += read;
    }
    jpeg_abort_decompress(&info_);
    return true;
  }

  jpeg_decompress_struct info_{};
  Errors errors_{};
  std::vector<JSAMPLE> pixels_;
};

}  // namespace

double decode_crops(std::span<const CropToDecode> crops, int threads) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::atomic<std::size_t> next = 0, bad = kNone;
  const auto work = [&] {
    Decoder decoder;
    for (std::size_t i; (i = next.fetch_add(1)) < crops.size();) {
      if (!decoder.decode(crops[i])) bad = i;
    }
  };
  const auto began = Clock::now();
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t) workers.emplace_back(work);
  workers.clear();  // joins
  const double seconds = seconds_since(began);
  if (bad != kNone) {
    throw Failure("bench loader: crop " + std::to_string(bad) + " of the list can't be decoded");
  }
  return seconds;
}

}  // namespace convoy::cli
