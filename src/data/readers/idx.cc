// http://yann.lecun.com/exdb/mnist/: two bytes of 0, the type of the elements, the number of
// dimensions, each dimension as 32 bits (big-endian), the elements.
#include "data/readers/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/readers/byte_source.h"

namespace convoy::data {
namespace {

constexpr unsigned kUnsignedByte = 0x08;
constexpr std::size_t kMaxDimensions = 4;
constexpr std::size_t kMaxSide = 1 << 16;

std::string hex(unsigned value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%02x", value);
  return text.data();
}

std::string joined(const std::vector<std::size_t>& sizes) {
  std::string text;
  for (const std::size_t size : sizes) {
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  }
  return text;
}

void check_magic(const std::array<std::byte, 4>& magic, const std::string& name) {
  const auto type = std::to_integer<unsigned>(magic[2]);
  const auto dimensions = std::to_integer<unsigned>(magic[3]);
  constexpr std::array<unsigned, 6> kTypes = {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e};
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} ||
      std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    throw UsageError(name + ": not an IDX file, which begins with 00 00 and a type (8 to e)");
  }
  if (type != kUnsignedByte) {
    throw UsageError(name + ": an IDX file of type " + hex(type) + "; unsigned bytes (" +
                     hex(kUnsignedByte) + ") can be read");
  }
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    throw UsageError(name + ": an IDX file of " + std::to_string(dimensions) +
                     " dimensions; labels have 1, images 3 or 4");
  }
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, const std::string& name) {
  ByteSource source(file, name);
  std::array<std::byte, 4> word;
  if (source.read(word) != word.size()) {
    throw UsageError(name + ": truncated: it ends inside of the header");
  }
  check_magic(word, name);
  IdxArray array;
  std::size_t total = 1;
  for (auto left = std::to_integer<unsigned>(word[3]); left > 0; --left) {
    if (source.read(word) != word.size()) {
      throw UsageError(name + ": truncated: it ends inside of the header");
    }
    std::size_t size = 0;
    for (const std::byte byte : word) size = size << 8 | std::to_integer<std::size_t>(byte);
    array.sizes.push_back(size);
    if (size != 0 && total > std::numeric_limits<std::size_t>::max() / size) {
      throw UsageError(name + ": the header says " + joined(array.sizes) + " bytes or more");
    }
    total *= size;
  }
  const auto truncated = [&](const std::string& has) {
    return UsageError(name + ": truncated: the header says " + joined(array.sizes) + " = " +
                      std::to_string(total) + " bytes, the file has " + has);
  };
  // Before memory is allocated: the header may say anything.
  if (total > source.most_left()) {
    throw truncated("at most " + std::to_string(source.most_left()));
  }
  array.bytes.resize(total);
  const std::size_t had = source.read(array.bytes);
  if (had != total) throw truncated(std::to_string(had));
  std::byte more;
  if (source.read({&more, 1}) != 0) {
    throw UsageError(name + ": bytes follow the " + joined(array.sizes) + " = " +
                     std::to_string(total) + " that the header says");
  }
  return array;
}

Examples idx_examples(IdxArray images, const std::string& images_name, const IdxArray& labels,
                      const std::string& labels_name) {
  const auto& sizes = images.sizes;
  if (sizes.size() != 3 && sizes.size() != 4) {
    throw UsageError(images_name + ": " + std::to_string(sizes.size()) + " dimensions (" +
                     joined(sizes) + "); images have 3 or 4" +
                     (sizes.size() == 1 ? ": are these the labels?" : ""));
  }
  if (labels.sizes.size() != 1) {
    throw UsageError(labels_name + ": " + std::to_string(labels.sizes.size()) + " dimensions (" +
                     joined(labels.sizes) + "); labels have 1: are these the images?");
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] == 0 || sizes[i] > kMaxSide) {
      throw UsageError(images_name + ": images of a side of " + std::to_string(sizes[i]) + " (" +
                       joined(sizes) + "); it can be 1 to 65536");
    }
  }
  if (sizes[0] != labels.sizes[0]) {
    throw UsageError(images_name + " holds " + std::to_string(sizes[0]) + " images, " +
                     labels_name + " " + std::to_string(labels.sizes[0]) +
                     " labels: they don't belong together");
  }
  if (sizes[0] == 0) throw UsageError(images_name + ": it holds no images");
  Examples examples;
  examples.parts.push_back({images_name, sizes[0]});
  const std::size_t n = sizes.size();
  examples.shape = {n == 4 ? static_cast<int>(sizes[1]) : 1, static_cast<int>(sizes[n - 2]),
                    static_cast<int>(sizes[n - 1])};
  examples.bytes = std::move(images.bytes);
  examples.labels.reserve(labels.bytes.size());
  std::size_t classes = 0;
  for (const std::byte label : labels.bytes) {
    examples.labels.push_back(std::to_integer<std::uint8_t>(label));
    classes = std::max<std::size_t>(classes, examples.labels.back() + std::size_t{1});
  }
  examples.classes = digit_names(classes);
  return examples;
}

std::shared_ptr<Dataset> open_idx(const std::string& images, const std::string& labels) {
  const IdxArray label_array = parse_idx(read_file(labels), labels);
  return make_memory_dataset(
      idx_examples(parse_idx(read_file(images), images), images, label_array, labels));
}

}  // namespace convoy::data
