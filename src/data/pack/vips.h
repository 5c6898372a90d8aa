// libvips, loaded when images have to be resized or encoded anew.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/pack.h"
#include "convoy/data/transform.h"

namespace convoy::data {

// libvips brings a hundred libraries of its own, so that neither the build nor programs that only
// read data should need it: it is opened at run time. All functions may be called from any thread;
// each call computes in the calling thread's time, without libvips' own threads beside it.
class Vips {
 public:
  // Throws UsageError naming the package when it is not installed. The first call initializes the
  // library for the whole process, without its cache.
  static std::shared_ptr<const Vips> load();
  ~Vips();

  // "8.14.1"
  const std::string& version() const { return version_; }

  // Read a WebP file: of an animation the first picture, without alpha, turned upright as Exif
  // says. Both throw UsageError saying what is wrong; the first reads the header alone, and gives
  // the size before turning.
  Shape webp_shape(std::span<const std::byte> file) const;
  void decode_webp(std::span<const std::byte> file, Image& image) const;

  // Multiplies both sides by `scale` (at most 1; Lanczos with 3 lobes behind a box filter) and
  // encodes the result as a JPEG without metadata.
  struct Encoding {
    double scale = 1;
    int quality = 90;
    Chroma chroma = Chroma::half;
  };
  std::vector<std::byte> encode(const Image& image, const Encoding& how) const;
  // Makes the image smaller in the same way, and gives its pixels.
  void shrink(const Image& image, double scale, Image& result) const;

 private:
  struct Functions;
  class Picture;
  Vips();
  Picture open_webp(std::span<const std::byte> file) const;

  std::unique_ptr<Functions> f_;
  std::string version_;
};

}  // namespace convoy::data
