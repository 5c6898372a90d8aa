// Images with any number of labels each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/small_world.h"

namespace convoy::train::testing_data {

// The images of Stripes with none, one or three of four labels: samples 0, 3, ... have none,
// 1, 4, ... have number i mod 4, 2, 5, ... have all but that.
class ManyLabels final : public data::Dataset {
 public:
  explicit ManyLabels(std::size_t size, Stripes::Bad bad = {}) : images_(size, bad) {}

  std::size_t size() const override { return images_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    data::Record record = images_.read(i, scratch);
    record.label = label(i);
    return record;
  }
  std::string key(std::size_t i) const override { return "many[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override {
    const std::vector<std::int64_t> all = labels(i);
    return all.empty() ? -1 : all.front();
  }
  bool label_lists() const override { return true; }
  std::vector<std::int64_t> labels(std::size_t i) const override {
    const auto one = static_cast<std::int64_t>(i % 4);
    std::vector<std::int64_t> labels;
    for (std::int64_t label = 0; label < 4; ++label) {
      if (i % 3 == 1 ? label == one : i % 3 == 2 && label != one) labels.push_back(label);
    }
    return labels;
  }
  std::uint64_t fingerprint() const override { return size(); }

 private:
  Stripes images_;
  std::vector<std::string> classes_{"north", "east", "south", "west"};
};

inline void add_many_labels(Registry& registry) {
  registry.add_reader(
      "many",
      [](const Options& o) {
        return std::make_shared<ManyLabels>(static_cast<std::size_t>(o.integer("size")));
      },
      {{"size", std::int64_t{60}, "samples"}});
}

}  // namespace convoy::train::testing_data
