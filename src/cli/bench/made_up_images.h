// Images that nobody took, for benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"

namespace convoy::cli {

// As many as one likes, of one shape: windows into the same memory of random bytes, with labels
// that follow from their numbers.
class MadeUpImages final : public data::Dataset {
 public:
  MadeUpImages(data::Shape shape, std::size_t classes, std::size_t count);

  std::size_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override;
  std::string key(std::size_t i) const override { return "made-up[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override;
  std::uint64_t fingerprint() const override { return count_; }

  // What all images are windows into, and where image i begins in it.
  std::span<const std::byte> pixels() const { return pixels_; }
  std::size_t begin(std::size_t i) const;

 private:
  data::Shape shape_;
  std::size_t count_;
  std::vector<std::string> classes_;
  std::vector<std::byte> pixels_;
};

}  // namespace convoy::cli
