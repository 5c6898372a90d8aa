// Data sets and what loaders give of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "convoy/data/loader.h"
#include "tests/data/support.h"

namespace convoy::data {

using Pixels = std::vector<float>;

// `count` images of 3 x 6 x 6 bytes, no two alike.
inline std::shared_ptr<Dataset> small_images(std::size_t count) {
  std::vector<Bytes> records;
  for (std::size_t i = 0; i < count; ++i) {
    RandomStream random(99, i);
    Bytes bytes(108);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    records.push_back(bytes);
  }
  return std::make_shared<TestDataset>(records, Encoding::interleaved_u8, Shape{3, 6, 6});
}

// `count` JPEGs, of which those numbered in `bad` are cut short.
inline std::shared_ptr<Dataset> jpegs(std::size_t count, const std::set<std::size_t>& bad = {}) {
  const Bytes good = read_file(fixture("color420.jpg"));
  std::vector<Bytes> records(count, good);
  for (const std::size_t i : bad) records[i].resize(good.size() / 2);
  return std::make_shared<TestDataset>(records, Encoding::jpeg, Shape{});
}

inline TransformOptions random_crops() {
  TransformOptions options;
  options.crop = Crop::random_resized;
  options.height = options.width = 5;
  options.flip = true;
  return options;
}

inline LoaderOptions batches_of(std::size_t batch, int rank = 0, int world = 1, int threads = 1) {
  LoaderOptions options;
  options.batch = batch;
  options.rank = rank;
  options.world = world;
  options.threads = threads;
  options.seed = 5;
  return options;
}

// What ranks were given: sample -> pixels, each sample once, and the order over all ranks.
struct Seen {
  std::map<std::size_t, Pixels> pixels;
  std::vector<std::size_t> order;

  void add(const Batch& batch) {
    const std::size_t each = batch.shape.elements();
    ASSERT_EQ(batch.images.size(), batch.size() * each);
    ASSERT_EQ(batch.labels.size(), batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::size_t sample = batch.samples[i];
      EXPECT_EQ(batch.labels[i], static_cast<std::int64_t>(sample % 10));
      const auto image = batch.images.subspan(i * each, each);
      EXPECT_TRUE(pixels.emplace(sample, Pixels(image.begin(), image.end())).second)
          << "sample " << sample << " came twice";
      order.push_back(sample);
    }
  }
};

}  // namespace convoy::data
