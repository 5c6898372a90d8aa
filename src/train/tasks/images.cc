#include "train/tasks/images.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "convoy/data/transform.h"
#include "convoy/train/evaluate.h"

namespace convoy::train {
namespace {

constexpr std::size_t kAtOnce = 16;

// What the evaluation would make of a picture, whatever its own size and colors.
data::TransformOptions transform_for(const DataRecipe& recipe, const data::Shape& image) {
  data::TransformOptions options = evaluation_transform(recipe);
  options.pixel = data::Pixel::f32;
  // Pictures come as they are; the network takes one shape.
  options.channels = image.channels;
  if (recipe.size == 0) {
    options.crop = data::Crop::center;
    options.height = image.height;
    options.width = image.width;
    options.resize = std::max(options.height, options.width);
  }
  return options;
}

// What the network gets of one picture.
struct Decoded {
  data::Shape shape;
  int views = 1;
  std::vector<float> pixels;
};

Decoded decode(const std::string& file, const data::TransformOptions& options,
               data::Layout layout) {
  const std::vector<std::byte> bytes = read_file(file);
  data::Record record;
  record.bytes = bytes;
  record.encoding = data::encoding_of(bytes);
  data::Transformer transformer(options, data::shape_of(record));
  Decoded decoded{transformer.shape(), transformer.views(), {}};
  decoded.pixels.resize(decoded.shape.elements() * static_cast<std::size_t>(decoded.views));
  RandomStream random(0);
  transformer.apply(record, random, layout, decoded.pixels.data());
  return decoded;
}

// Pictures that wait for others of their shape.
class Waiting {
 public:
  Waiting(const Compute& compute, const std::function<void(const ImageBatch&)>& use)
      : compute_(compute), use_(use) {}

  void add(std::size_t file, const Decoded& picture) {
    if (!(picture.shape == shape_ && picture.views == views_)) flush();
    shape_ = picture.shape;
    views_ = picture.views;
    pixels_.insert(pixels_.end(), picture.pixels.begin(), picture.pixels.end());
    files_.push_back(file);
    if (files_.size() == kAtOnce) flush();
  }

  void flush() {
    if (files_.empty()) return;
    // Whatever comes of them, they don't wait any more.
    std::vector<float> pixels = std::exchange(pixels_, {});
    const std::vector<std::size_t> files = std::exchange(files_, {});
    data::Batch batch;
    batch.images = pixels;
    batch.bytes = std::as_writable_bytes(batch.images);
    batch.views = views_;
    batch.samples = files;
    batch.shape = shape_;
    batch.layout = compute_.layout();
    use_({compute_.images(batch), files});
  }

 private:
  const Compute& compute_;
  const std::function<void(const ImageBatch&)>& use_;
  std::vector<float> pixels_;
  std::vector<std::size_t> files_;
  data::Shape shape_;
  int views_ = 1;
};

}  // namespace

void read_images(const std::vector<std::string>& files, const DataRecipe& recipe,
                 const data::Shape& image, const Compute& compute,
                 const std::function<void(std::size_t file, const std::string& why)>& failed,
                 const std::function<void(const ImageBatch&)>& use) {
  const data::TransformOptions options = transform_for(recipe, image);
  Waiting waiting(compute, use);
  for (std::size_t i = 0; i < files.size(); ++i) {
    Decoded picture;
    try {
      picture = decode(files[i], options, compute.layout());
    } catch (const std::exception& error) {
      const std::string text = error.what();
      failed(i, text.find(files[i]) == std::string::npos ? files[i] + ": " + text : text);
      continue;
    }
    // Outside of the above: what goes wrong in the network is no mistake of a picture.
    waiting.add(i, picture);
  }
  waiting.flush();
}

void describe(const std::vector<ClassProbability>& best, Answer& answer) {
  auto classes = nlohmann::ordered_json::array();
  for (const ClassProbability& one : best) {
    classes.push_back({{"index", one.index}, {"name", one.name}, {"probability", one.probability}});
    char percent[16];
    std::snprintf(percent, sizeof percent, "%6.2f%%", 100 * one.probability);
    answer.lines.push_back(std::string(percent) + "  " + one.name);
  }
  answer.json = nlohmann::ordered_json{{"classes", classes}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace convoy::train
