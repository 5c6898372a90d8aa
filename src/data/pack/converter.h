// From an image as the source has it to the bytes of a record.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/pack.h"
#include "convoy/data/transform.h"
#include "data/pack/vips.h"

namespace convoy::data {

struct Converted {
  std::vector<std::byte> bytes;
  const char* extension = "jpg";  // or "png"
  bool unchanged = false;         // the bytes, or pixels, are the source's
};

// Any thread may convert; one picture of more than 32 million pixels at a time, which bounds the
// memory of all threads together.
class Converter {
 public:
  // `options` have to outlive this; `vips` may be null if needs_vips() says so.
  Converter(const PackOptions& options, std::shared_ptr<const Vips> vips);
  Converter(PackOptions&& options, std::shared_ptr<const Vips> vips) = delete;

  static bool needs_vips(const PackOptions& options, bool pixels, const Shape& shape);

  // Whatever is written decodes without complaint: a file is decoded as the loader does it before
  // anything else. Throws UsageError saying what is wrong with it.
  Converted convert(const Record& record);

 private:
  enum class Kind { jpeg, jpeg_of_four_colors, png, webp };
  struct Source {
    Kind kind;
    bool turned;  // stored otherwise than upright, which the decoded image is
  };

  Source decode(std::span<const std::byte> file, Image& image, std::unique_lock<std::mutex>& alone);
  Converted convert_pixels(const Record& record) const;
  Converted convert_file(std::span<const std::byte> file, const Source& source,
                         const Image& image) const;
  double scale_for(int height, int width) const;

  const PackOptions& options_;
  std::shared_ptr<const Vips> vips_;
  std::mutex large_;
};

}  // namespace convoy::data
