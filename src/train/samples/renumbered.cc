#include "train/samples/renumbered.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/data/remarks.h"

namespace convoy::train {
namespace {

class Renumbered final : public data::Dataset, public data::Remarks {
 public:
  Renumbered(std::shared_ptr<const data::Dataset> dataset, std::vector<std::string> classes,
             std::vector<std::int64_t> numbers)
      : dataset_(std::move(dataset)), classes_(std::move(classes)), numbers_(std::move(numbers)) {}

  std::size_t size() const override { return dataset_->size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    data::Record record = dataset_->read(i, scratch);
    record.label = number_of(record.label);
    return record;
  }
  std::string key(std::size_t i) const override { return dataset_->key(i); }
  std::int64_t label(std::size_t i) const override {
    // The first of several is another one where classes have another order.
    if (!label_lists()) return number_of(dataset_->label(i));
    const std::vector<std::int64_t> all = labels(i);
    return all.empty() ? -1 : all.front();
  }
  bool pictures() const override { return dataset_->pictures(); }
  bool label_lists() const override { return dataset_->label_lists(); }
  std::vector<std::int64_t> labels(std::size_t i) const override {
    std::vector<std::int64_t> all = dataset_->labels(i);
    for (std::int64_t& label : all) label = number_of(label);
    std::sort(all.begin(), all.end());
    return all;
  }
  std::uint64_t fingerprint() const override {
    Xxh3 hash;
    const std::uint64_t whole = dataset_->fingerprint();
    hash.update(std::as_bytes(std::span(&whole, 1)));
    hash.update(std::as_bytes(std::span(numbers_)));
    return hash.digest();
  }
  std::vector<std::string> remarks() const override {
    const auto* const has = dynamic_cast<const data::Remarks*>(dataset_.get());
    return has == nullptr ? std::vector<std::string>() : has->remarks();
  }

 private:
  std::int64_t number_of(std::int64_t label) const {
    const auto i = static_cast<std::size_t>(label);
    return label >= 0 && i < numbers_.size() ? numbers_[i] : label;
  }

  std::shared_ptr<const data::Dataset> dataset_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> numbers_;  // by its own label
};

// The number of each name; nothing where one stands twice.
std::map<std::string, std::int64_t> numbers_of(const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : names) {
    const auto number = static_cast<std::int64_t>(numbers.size());
    if (!numbers.emplace(name, number).second) return {};
  }
  return numbers;
}

}  // namespace

std::shared_ptr<const data::Dataset> renumbered(std::shared_ptr<const data::Dataset> dataset,
                                                const std::vector<std::string>& classes) {
  const std::vector<std::string>& own = dataset->classes();
  if (own.empty() || own == classes || numbers_of(own).empty()) return dataset;
  const std::map<std::string, std::int64_t> known = numbers_of(classes);
  std::vector<std::int64_t> numbers;
  for (const std::string& name : own) {
    const auto found = known.find(name);
    if (found == known.end()) return dataset;
    numbers.push_back(found->second);
  }
  return std::make_shared<Renumbered>(std::move(dataset), classes, std::move(numbers));
}

std::vector<std::string> missing_classes(const data::Dataset& dataset,
                                         const std::vector<std::string>& classes) {
  const std::map<std::string, std::int64_t> own = numbers_of(dataset.classes());
  std::vector<std::string> missing;
  for (const std::string& name : classes) {
    if (!own.contains(name)) missing.push_back(name);
  }
  return missing;
}

}  // namespace convoy::train
