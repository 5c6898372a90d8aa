// A random part of a data set, for evaluations that needn't take all of it. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"

namespace convoy::train {

// Which records these are is up to `seed` and the number of records alone; they keep their order.
class RandomPart final : public data::Dataset {
 public:
  // So much of `whole`, to the nearest record, but at least one if it has any. 0 < fraction <= 1.
  RandomPart(std::shared_ptr<const data::Dataset> whole, double fraction, std::uint64_t seed);

  std::size_t size() const override { return records_.size(); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    return whole_->read(records_[i], scratch);
  }
  std::string key(std::size_t i) const override { return whole_->key(records_[i]); }
  std::int64_t label(std::size_t i) const override { return whole_->label(records_[i]); }
  bool pictures() const override { return whole_->pictures(); }
  bool label_lists() const override { return whole_->label_lists(); }
  std::vector<std::int64_t> labels(std::size_t i) const override {
    return whole_->labels(records_[i]);
  }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  // The record of the whole that is record i here.
  std::size_t in_whole(std::size_t i) const { return records_[i]; }

 private:
  std::shared_ptr<const data::Dataset> whole_;
  std::vector<std::size_t> records_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace convoy::train
