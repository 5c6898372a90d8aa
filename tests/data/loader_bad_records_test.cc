// Records that can't be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "convoy/base/error.h"
#include "tests/data/loader_support.h"

namespace convoy::data {
namespace {

TEST(Loader, ABadRecordEndsTheRunInTheBatchItIsIn) {
  LoaderOptions options = batches_of(4, 0, 1, 3);
  options.shuffle = false;
  Loader loader(jpegs(20, {9, 10}), {}, options);
  EXPECT_EQ(loader.next()->size(), 4u);
  EXPECT_EQ(loader.next()->size(), 4u);
  for (int i = 0; i < 2; ++i) {
    expect_error<UsageError>(
        [&] { loader.next(); },
        {"record 9: JPEG: ", "data.on_bad = \"skip\" leaves such records out"});
  }
  EXPECT_EQ(loader.position(), (Position{0, 0, {{0, 8}}}));
  loader.seek({0, 0, {{0, 12}}});
  EXPECT_EQ(loader.next()->samples[0], 12u);
}

// An order that can't be made from its third batch on.
class BrokenOrder final : public SampleOrder {
 public:
  explicit BrokenOrder(bool memory) : memory_(memory) {}
  std::size_t largest_share(std::size_t batch) const override { return batch; }
  bool ready(std::uint64_t, std::size_t) const override { return true; }
  void append_share(std::uint64_t, Range batch, std::vector<std::size_t>& samples) override {
    if (batch.begin >= 8 && memory_) throw std::bad_alloc();
    if (batch.begin >= 8) throw Failure("node7 can't say which samples come next");
    for (std::size_t i = batch.begin; i < batch.end; ++i) samples.push_back(i);
  }

 private:
  const bool memory_;
};

TEST(Loader, WhatItsOrderThrowsReachesTheCallerBehindTheBatchesBefore) {
  for (const bool memory : {false, true}) {
    LoaderOptions options = batches_of(4, 0, 1, 3);
    options.order = std::make_shared<BrokenOrder>(memory);
    Loader loader(small_images(20), {}, options);
    for (int part = 0; part < 2; ++part) {
      EXPECT_EQ(loader.next()->samples[0], 0u);
      EXPECT_EQ(loader.next()->samples[0], 4u);
      for (int i = 0; i < 2; ++i) {
        expect_error<Failure>([&] { loader.next(); },
                              {memory ? "no memory on this host for the order" : "node7"});
      }
      EXPECT_EQ(loader.position(), (Position{0, 0, {{0, 8}}}));
      loader.seek({});
    }
  }
}

TEST(Loader, BadRecordsAreSkippedCountedAndNamedOnce) {
  const std::set<std::size_t> bad = {0, 3, 4, 5, 6, 7, 17};
  std::mutex mutex;
  std::vector<std::string> messages;
  LoaderOptions options = batches_of(4, 0, 1, 3);
  options.shuffle = false;
  options.on_bad = OnBad::skip;
  options.on_skip = [&](const std::string& message) {
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  };
  Loader loader(jpegs(20, bad), {}, options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    Seen seen;
    std::vector<std::size_t> sizes;
    while (const Batch* batch = loader.next()) {
      seen.add(*batch);
      sizes.push_back(batch->size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 0, 4, 4, 3}));
    EXPECT_TRUE(std::is_sorted(seen.order.begin(), seen.order.end()));
    for (const std::size_t i : bad) EXPECT_EQ(seen.pixels.count(i), 0u);
    EXPECT_EQ(loader.statistics().skipped, 7u * static_cast<std::size_t>(epoch + 1));
    EXPECT_EQ(loader.statistics().samples, 13u * static_cast<std::size_t>(epoch + 1));
    EXPECT_EQ(loader.statistics().batches, 5u * static_cast<std::size_t>(epoch + 1));
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(messages.size(), 7u);
  std::sort(messages.begin(), messages.end());
  EXPECT_EQ(messages[1].find("record 17: JPEG: "), 0u) << messages[1];
}

// Whose names are others' words.
class OddlyNamed final : public TestDataset {
 public:
  using TestDataset::TestDataset;
  std::string key(std::size_t i) const override {
    return "a\x1b[31m/" + std::to_string(i) + "\n.jpg";
  }
};

TEST(Loader, ABadRecordIsNamedInOneLineWithoutControlCharacters) {
  const auto data = std::make_shared<OddlyNamed>(
      std::vector<Bytes>{read_file(fixture("gray.jpg")), Bytes(9)}, Encoding::jpeg, Shape{});
  const std::string name = "a\\x1b[31m/1\\x0a.jpg: ";
  LoaderOptions options = batches_of(2);
  Loader failing(data, {}, options);
  expect_error<UsageError>([&] { failing.next(); }, {name});
  options.on_bad = OnBad::skip;
  std::string said;
  options.on_skip = [&said](const std::string& text) { said = text; };
  Loader skipping(data, {}, options);
  EXPECT_EQ(skipping.next()->size(), 1u);
  EXPECT_EQ(said.find(name), 0u) << said;
}

// What decides the channels is the first record that can be read.
TEST(Loader, AGrayPictureBehindBadOnesMakesOthersGray) {
  const Bytes gray = read_file(fixture("gray.jpg")), color = read_file(fixture("color420.jpg"));
  const auto said = [](std::vector<Bytes> records) {
    return color_made_gray(TestDataset(std::move(records), Encoding::jpeg, Shape{}));
  };
  EXPECT_EQ(said({Bytes(9), gray, color}),
            "record 1, the first picture, is gray, and record 2 is in color");
  EXPECT_EQ(said({Bytes(9), color, gray}), "");
  EXPECT_EQ(said({gray, Bytes(9), gray}), "");
  EXPECT_EQ(said({Bytes(9), Bytes(9)}), "");
}

// Floats, of which the first are of another size.
class Growing final : public TestDataset {
 public:
  Growing() : TestDataset(std::vector<Bytes>(6, Bytes(36)), Encoding::planar_f32, {1, 3, 3}) {}
  Record read(std::size_t i, Bytes& scratch) const override {
    Record record = TestDataset::read(i, scratch);
    if (i < 2) record = {record.bytes.first(16), record.encoding, {1, 2, 2}, record.label};
    return record;
  }
};

// Nothing is made of a batch to find that out.
TEST(Loader, WhatTheTransformCannotTakeIsSaidAtOnce) {
  TransformOptions transform;
  transform.crop = Crop::center;
  transform.height = transform.width = transform.resize = 3;
  LoaderOptions options = batches_of(6);
  const auto data = std::make_shared<Growing>();
  expect_error<UsageError>([&] { Loader(data, transform, options); },
                           {"record 0: ", "floats", "2 x 2", "3 x 3"});
  options.on_bad = OnBad::skip;
  Loader loader(data, transform, options);
  EXPECT_EQ(loader.shape(), (Shape{1, 3, 3}));
  EXPECT_EQ(loader.next()->size(), 4u);
  EXPECT_EQ(loader.statistics().skipped, 2u);
}

// Whose records can't be read, as of a disk that fails.
class Unreadable : public TestDataset {
 public:
  using TestDataset::TestDataset;
  Record read(std::size_t i, Bytes& scratch) const override {
    if (i == 3) throw Failure("reading record 3 on node7: Input/output error");
    return TestDataset::read(i, scratch);
  }
};

// Of which one takes more memory than there is.
class Enormous : public TestDataset {
 public:
  using TestDataset::TestDataset;
  Record read(std::size_t i, Bytes& scratch) const override {
    if (i == 3) throw std::bad_alloc();
    return TestDataset::read(i, scratch);
  }
};

TEST(Loader, ARecordWithoutMemoryForItIsNamedAndMayBeSkipped) {
  LoaderOptions options = batches_of(2);
  options.shuffle = false;
  const auto data = std::make_shared<Enormous>(std::vector<Bytes>(6, Bytes(4)), Encoding::planar_u8,
                                               Shape{1, 2, 2});
  Loader failing(data, {}, options);
  EXPECT_EQ(failing.next()->size(), 2u);
  expect_error<Failure>([&] { failing.next(); }, {"record 3", "no memory"});
  options.on_bad = OnBad::skip;
  std::mutex mutex;
  std::string message;
  options.on_skip = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    message += text;
  };
  Loader skipping(data, {}, options);
  EXPECT_EQ(skipping.next()->size(), 2u);
  EXPECT_EQ(skipping.next()->size(), 1u);
  EXPECT_EQ(skipping.next()->size(), 2u);
  const std::lock_guard lock(mutex);
  EXPECT_NE(message.find("record 3: there is no memory"), std::string::npos) << message;
}

TEST(Loader, FailuresOfTheWorldAreNeverSkipped) {
  LoaderOptions options = batches_of(2);
  options.shuffle = false;
  options.on_bad = OnBad::skip;
  const auto data = std::make_shared<Unreadable>(std::vector<Bytes>(6, Bytes(4)),
                                                 Encoding::planar_u8, Shape{1, 2, 2});
  Loader loader(data, {}, options);
  EXPECT_EQ(loader.next()->size(), 2u);
  expect_error<Failure>([&] { loader.next(); }, {"record 3", "node7", "Input/output error"});
}

TEST(LoaderOrder, PartsOfTwoOrdersAreRefused) {
  LoaderOptions options = batches_of(4);
  options.order = std::make_shared<BrokenOrder>(false);
  Loader loader(small_images(20), {}, options);
  // Without a gap, but of two orders.
  expect_error<UsageError>([&] { loader.seek({0, 0, {{0, 2}, {2, 4}}}); }, {"several parts"});
}

}  // namespace
}  // namespace convoy::data
