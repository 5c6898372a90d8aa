#include "data/pack/vips.h"

#include <dlfcn.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "data/decode/decode.h"
#include "data/pack/vips_functions.h"

namespace convoy::data {
namespace {

using namespace vips_values;

}  // namespace

// Owns one of libvips' images, which hold pixels or say how they will be made.
class Vips::Picture {
 public:
  Picture(VipsImage* image, void (*unref)(void*)) : image_(image, unref) {}
  VipsImage* get() const { return image_.get(); }

 private:
  std::unique_ptr<VipsImage, void (*)(void*)> image_;
};

struct Vips::Functions : VipsFunctions {
  void* library;

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
      throw UsageError(std::string("convoy pack: ") + kVipsLibrary + " has no function " + name +
                       "; version 8.10 or newer is needed");
    }
  }

  Picture own(VipsImage* image) const { return {image, object_unref}; }

  // The messages are the library's, one list for all threads.
  [[noreturn]] void fail() const {
    char* text = error_buffer_copy();
    std::string message = text;
    free(text);
    message.erase(message.find_last_not_of('\n') + 1);
    std::replace(message.begin(), message.end(), '\n', ' ');
    throw UsageError(message.empty() ? "libvips gives no reason" : message);
  }

  // The pixels stay the caller's.
  Picture wrap(const Image& image) const {
    VipsImage* picture =
        image_new_from_memory(image.pixels.data(), image.pixels.size(), image.width, image.height,
                              image.channels, kFormatUchar);
    if (picture == nullptr) fail();
    return own(picture);
  }
  Picture shrink(const Picture& from, double scale) const {
    VipsImage* to = nullptr;
    if (resize(from.get(), &to, scale, nullptr) != 0) fail();
    return own(to);
  }
  void copy(const Picture& from, Image& to) const {
    to.width = image_get_width(from.get());
    to.height = image_get_height(from.get());
    to.channels = image_get_bands(from.get());
    std::size_t size = 0;
    void* pixels = image_write_to_memory(from.get(), &size);
    if (pixels == nullptr) fail();
    const auto* bytes = static_cast<const std::uint8_t*>(pixels);
    to.pixels.assign(bytes, bytes + size);
    free(pixels);
  }
};

Vips::Vips() : f_(std::make_unique<Functions>()) {
  Functions& f = *f_;
  f.library = dlopen(kVipsLibrary, RTLD_NOW | RTLD_LOCAL);
  if (f.library == nullptr) {
    const char* reason = dlerror();
    throw UsageError(std::string("images are resized and encoded by libvips, which can't be loaded "
                                 "here: install the package libvips-tools (or libvips42), or store "
                                 "images as they are with --keep. The system says: ") +
                     (reason != nullptr ? reason : "nothing"));
  }
  each_vips_function(f, [&f](const char* name, auto& function) { f.find(name, function); });
  if (f.init("convoy") != 0) f.fail();
  f.concurrency_set(1);
  f.cache_set_max(0);
  // Oddities of metadata are no reason to write on the user's terminal.
  f.log_set_handler(
      "VIPS", kAllLevels, [](const char*, int, const char*, void*) {}, nullptr);
  const std::string version = f.version_string();
  version_ = version.substr(0, version.find_first_of(" -"));
}

// The library stays: it can't be taken out of a process again.
Vips::~Vips() = default;

std::shared_ptr<const Vips> Vips::load() { return std::shared_ptr<const Vips>(new Vips); }

std::string image_library_version() { return Vips::load()->version(); }

Vips::Picture Vips::open_webp(std::span<const std::byte> file) const {
  VipsImage* image = nullptr;
  if (f_->webpload_buffer(const_cast<std::byte*>(file.data()), file.size(), &image, "fail_on",
                          kFailOnWarning, nullptr) != 0) {
    f_->fail();
  }
  return f_->own(image);
}

Shape Vips::webp_shape(std::span<const std::byte> file) const {
  const Picture picture = open_webp(file);
  const VipsImage* image = picture.get();
  const int height = f_->image_get_height(image), width = f_->image_get_width(image);
  check_size("WebP", static_cast<std::size_t>(height), static_cast<std::size_t>(width));
  if (f_->image_get_format(image) != kFormatUchar || f_->image_get_bands(image) < 3) {
    throw UsageError("WebP: not a picture of 8 bits and 3 colors");
  }
  return {3, height, width};
}

void Vips::decode_webp(std::span<const std::byte> file, Image& image) const {
  Picture picture = open_webp(file);
  if (f_->image_get_bands(picture.get()) > 3) {
    VipsImage* colors = nullptr;
    if (f_->extract_band(picture.get(), &colors, 0, "n", 3, nullptr) != 0) f_->fail();
    picture = f_->own(colors);
  }
  VipsImage* upright = nullptr;
  if (f_->autorot(picture.get(), &upright, nullptr) != 0) f_->fail();
  picture = f_->own(upright);
  f_->copy(picture, image);
}

std::vector<std::byte> Vips::encode(const Image& image, const Encoding& how) const {
  Picture picture = f_->wrap(image);
  if (how.scale < 1) picture = f_->shrink(picture, how.scale);
  void* bytes = nullptr;
  std::size_t size = 0;
  const int subsample = how.chroma == Chroma::half ? kSubsampleOn : kSubsampleOff;
  if (f_->jpegsave_buffer(picture.get(), &bytes, &size, "Q", how.quality, "subsample_mode",
                          subsample, "optimize_coding", 1, "strip", 1, nullptr) != 0) {
    f_->fail();
  }
  const auto* begin = static_cast<const std::byte*>(bytes);
  std::vector<std::byte> jpeg(begin, begin + size);
  f_->free(bytes);
  return jpeg;
}

void Vips::shrink(const Image& image, double scale, Image& result) const {
  f_->copy(f_->shrink(f_->wrap(image), scale), result);
}

}  // namespace convoy::data
