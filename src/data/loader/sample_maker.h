// From the number of a sample to its place in a batch.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/data/loader.h"
#include "data/loader/slot.h"

namespace convoy::data {

// Reads and transforms samples. Any number of threads may make samples, each with its own Scratch.
class SampleMaker {
 public:
  // Throws what output_shape() does.
  SampleMaker(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
              const LoaderOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const Shape& shape() const { return shape_; }  // of an image
  int views() const { return views_; }
  bool raw() const { return options_.raw; }
  bool label_lists() const { return label_lists_; }
  Pixel pixel() const { return transform_.pixel; }
  std::size_t sample_bytes() const { return sample_bytes_; }
  // Gives memory for the images of so many samples.
  Pixels memory_for(std::size_t samples) const;

  // What a thread keeps from one sample to the next. Filled by the thread that uses it: memory
  // close to its core.
  struct Scratch {
    std::optional<Transformer> transformer;
    std::vector<std::byte> bytes;
  };

  // Makes the sample at this place of a planned batch. A bad one that is to be skipped is marked
  // so. Throws UsageError and Failure that name the record.
  void make(Slot& slot, std::size_t place, Scratch& scratch);
  // Moves the samples that are not marked up to the front of their batch, in order, and drops the
  // rest. Once all are made.
  void close_gaps(Slot& slot) const;

 private:
  void skip(std::size_t sample, const std::string& message);

  std::shared_ptr<const Dataset> dataset_;
  TransformOptions transform_;
  LoaderOptions options_;
  bool label_lists_;
  Shape shape_;
  int views_ = 1;
  std::size_t sample_bytes_ = 0;
  std::mutex mutex_;
  std::set<std::size_t> named_;  // bad samples that on_skip was told about
};

}  // namespace convoy::data
