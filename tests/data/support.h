// What the tests of the data layer share: files, folders that go away, golden pixels, messages.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/data/dataset.h"
#include "tests/base/scratch.h"

namespace convoy::data {

inline std::string fixture(const std::string& name) {
  return test::source_folder() + "/tests/data/fixtures/" + name;
}

using test::Scratch;
using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(const std::vector<int>& values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

inline void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

// Runs `call`, which must throw Error; its message must contain all of `parts`.
template <typename Error, typename Call>
void expect_error(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << (parts.empty() ? "" : parts.back());
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

struct Difference {
  double mean = 0;
  int most = 0;
};

inline Difference difference(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  EXPECT_EQ(a.size(), b.size());
  if (a.size() != b.size() || a.empty()) return {255, 255};
  Difference result;
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int distance = std::abs(int{a[i]} - int{b[i]});
    total += distance;
    result.most = std::max(result.most, distance);
  }
  result.mean = total / static_cast<double>(a.size());
  return result;
}

// Examples in memory, as a user would write them.
class TestDataset : public Dataset {
 public:
  TestDataset(std::vector<Bytes> records, Encoding encoding, Shape shape)
      : records_(std::move(records)), encoding_(encoding), shape_(shape) {}

  std::size_t size() const override { return records_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Record read(std::size_t i, Bytes&) const override {
    return {records_[i], encoding_, shape_, label(i)};
  }
  std::string key(std::size_t i) const override { return "record " + std::to_string(i); }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 10); }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::vector<Bytes> records_;
  Encoding encoding_;
  Shape shape_;
  std::vector<std::string> classes_ = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

// An Exif segment that says how to turn the picture, behind the first two bytes of a JPEG.
inline Bytes turned(const Bytes& jpeg, int orientation) {
  const Bytes exif = to_bytes({0xff, 0xe1, 0, 34, 'E', 'x',         'i', 'f', 0, 0,    'M', 'M',
                               0,    42,   0, 0,  0,   8,           0,   1,   1, 0x12, 0,   3,
                               0,    0,    0, 1,  0,   orientation, 0,   0,   0, 0,    0,   0});
  Bytes result(jpeg.begin(), jpeg.begin() + 2);
  result.insert(result.end(), exif.begin(), exif.end());
  result.insert(result.end(), jpeg.begin() + 2, jpeg.end());
  return result;
}

}  // namespace convoy::data
