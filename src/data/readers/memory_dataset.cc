#include "data/readers/memory_dataset.h"

#include "convoy/base/checksum.h"

namespace convoy::data {
namespace {

class MemoryDataset final : public Dataset {
 public:
  explicit MemoryDataset(Examples examples) : examples_(std::move(examples)) {
    Xxh3 hash;
    const int shape[] = {examples_.shape.channels, examples_.shape.height, examples_.shape.width};
    hash.update(std::as_bytes(std::span(shape)));
    hash.update(std::as_bytes(std::span(examples_.labels)));
    hash.update(examples_.bytes);
    fingerprint_ = hash.digest();
  }

  std::size_t size() const override { return examples_.labels.size(); }
  const std::vector<std::string>& classes() const override { return examples_.classes; }

  Record read(std::size_t i, std::vector<std::byte>&) const override {
    const std::size_t each = examples_.shape.elements();
    return {std::span(examples_.bytes).subspan(i * each, each), Encoding::planar_u8,
            examples_.shape, label(i)};
  }

  std::string key(std::size_t i) const override {
    for (const Examples::Part& part : examples_.parts) {
      if (i < part.count) return part.name + "[" + std::to_string(i) + "]";
      i -= part.count;
    }
    return std::to_string(i);
  }

  std::int64_t label(std::size_t i) const override { return examples_.labels[i]; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  Examples examples_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::shared_ptr<Dataset> make_memory_dataset(Examples examples) {
  return std::make_shared<MemoryDataset>(std::move(examples));
}

std::vector<std::string> digit_names(std::size_t count) {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace convoy::data
