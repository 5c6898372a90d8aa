// Any number of labels for each of many images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace convoy::data {

inline constexpr std::int64_t kNoLabel = -1;

// One after another, in two pieces of memory: 8 bytes for each list, and 4 for each label.
class LabelLists {
 public:
  void add(std::span<const std::uint32_t> labels) {
    labels_.insert(labels_.end(), labels.begin(), labels.end());
    ends_.push_back(labels_.size());
    one_each_ = one_each_ && labels.size() == 1;
  }
  std::size_t size() const { return ends_.size(); }
  std::span<const std::uint32_t> operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(labels_).subspan(begin, ends_[i] - begin);
  }
  // Whether each list has one label.
  bool one_each() const { return one_each_; }

 private:
  std::vector<std::size_t> ends_;
  std::vector<std::uint32_t> labels_;
  bool one_each_ = true;
};

}  // namespace convoy::data
