#include "convoy/base/error.h"
#include "data/pack/source.h"
#include "data/packed/names.h"

namespace convoy::data {
namespace {

// Pixels in memory. Images are named by their number: "airplane/00000017", or without a class
// where they have any number of them.
class DatasetSource final : public PackSource {
 public:
  DatasetSource(std::shared_ptr<const Dataset> dataset, const PackOptions& options)
      : dataset_(std::move(dataset)) {
    if (!options.label_table.empty())
      throw UsageError("--label-table is for a folder or a tar of images");
    if (!options.below.empty()) throw UsageError("--below is for a tar, which has folders");
    version_ = dataset_->fingerprint();
    classes_ = dataset_->classes();
    if (!options.classes.empty()) {
      const std::size_t needed = classes_.size();
      classes_ = read_class_names(options.classes);
      if (classes_.size() < needed) {
        throw UsageError(options.classes + " names " + std::to_string(classes_.size()) +
                         " classes, the data has " + std::to_string(needed));
      }
    }
    std::vector<std::byte> scratch;
    const std::uint64_t size = dataset_->read(0, scratch).bytes.size();
    for (std::size_t i = 0; i < dataset_->size(); ++i) {
      const std::vector<std::int64_t> all = dataset_->labels(i);
      const std::vector<std::uint32_t> labels(all.begin(), all.end());
      labels_.add(labels);
      std::string number = std::to_string(i);
      number.insert(0, number.size() < 8 ? 8 - number.size() : 0, '0');
      if (!dataset_->label_lists()) number.insert(0, classes_[labels.front()] + "/");
      images_.push_back({number, size, ""});
    }
  }

  bool any_order() const override { return true; }
  bool pixels() const override { return true; }
  Record read(std::size_t i, std::vector<std::byte>& scratch) override {
    return dataset_->read(i, scratch);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace

std::unique_ptr<PackSource> open_dataset_source(std::shared_ptr<const Dataset> dataset,
                                                const PackOptions& options) {
  return std::make_unique<DatasetSource>(std::move(dataset), options);
}

}  // namespace convoy::data
