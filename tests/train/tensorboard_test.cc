// Reads event files back with a parser of its own: records, then protobuf fields.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <variant>

#include "convoy/base/error.h"
#include "convoy/train/metrics.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

using test::Scratch;
using test::slurp;

// Bit by bit, unlike the one under test.
std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (one ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("record ends early");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto size = number_at<std::uint64_t>(file, at);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, at + 8)), crc_of(file.substr(at, 8)));
    const std::string_view data = file.substr(at + 12, size);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, at + 12 + size)), crc_of(data));
    records.emplace_back(data);
    at += 16 + size;
  }
  return records;
}

// Field number -> values; fixed64 and fixed32 as bytes.
using Fields = std::multimap<int, std::variant<std::uint64_t, std::string>>;

Fields parse(std::string_view message) {
  Fields fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number_at<std::uint8_t>(message, at++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      fields.emplace(field, varint());
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      if (at + size > message.size()) throw std::runtime_error("field ends early");
      fields.emplace(field, std::string(message.substr(at, size)));
      at += size;
    }
  }
  return fields;
}

std::string bytes_in(const Fields& fields, int field) {
  EXPECT_EQ(fields.count(field), 1u) << field;
  return std::get<std::string>(fields.find(field)->second);
}

std::uint64_t number_in(const Fields& fields, int field) {
  EXPECT_EQ(fields.count(field), 1u) << field;
  return std::get<std::uint64_t>(fields.find(field)->second);
}

TEST(TensorBoard, ScalarsAndTexts) {
  const Scratch scratch;
  TensorBoardFile file(scratch.path("tb/logs"), -1);
  file.add(0, {{"train/loss", 2.5}});
  file.add(300, {{"train/loss", 1.25}, {"images_per_s", 1234.5}});
  file.add_text(300, "recipe", std::string(300, 'r'));
  const std::string name = std::filesystem::path(file.path()).filename();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;

  const std::vector<std::string> records = records_of(slurp(file.path()));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(bytes_in(parse(records[0]), 3), "brain.Event:2");
  for (const std::string& record : records) {
    EXPECT_GT(number_at<double>(bytes_in(parse(record), 1), 0), 1.6e9);
  }
  const Fields event = parse(records[2]);
  EXPECT_EQ(number_in(event, 2), 300u);
  const Fields summary = parse(bytes_in(event, 5));
  std::map<std::string, float> values;
  for (auto [one, end] = summary.equal_range(1); one != end; ++one) {
    const Fields value = parse(std::get<std::string>(one->second));
    values[bytes_in(value, 1)] = number_at<float>(bytes_in(value, 2), 0);
  }
  EXPECT_EQ(values,
            (std::map<std::string, float>{{"train/loss", 1.25f}, {"images_per_s", 1234.5f}}));

  const Fields text = parse(bytes_in(parse(bytes_in(parse(records[3]), 5)), 1));
  EXPECT_EQ(bytes_in(text, 1), "recipe");
  const Fields tensor = parse(bytes_in(text, 8));
  EXPECT_EQ(number_in(tensor, 1), 7u);
  EXPECT_EQ(bytes_in(tensor, 8), std::string(300, 'r'));
  EXPECT_EQ(bytes_in(parse(bytes_in(parse(bytes_in(text, 9)), 1)), 1), "text");
}

TEST(TensorBoard, AResumedRunForgetsLaterSteps) {
  const Scratch scratch;
  std::vector<std::string> paths;
  // In one second, by one process: the names must still be different, and in order.
  for (const int resumed_at : {-1, 5, 7}) {
    TensorBoardFile file(scratch.path(), resumed_at);
    file.add(6, {{"loss", 1}});
    paths.push_back(file.path());
  }
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  ASSERT_EQ(test::entries(scratch.path()), 3u);
  const std::vector<std::string> records = records_of(slurp(paths[1]));
  ASSERT_EQ(records.size(), 3u);
  const Fields start = parse(records[1]);
  EXPECT_EQ(number_in(start, 2), 6u);                      // from this step on
  EXPECT_EQ(number_in(parse(bytes_in(start, 7)), 1), 1u);  // SessionLog.START
}

TEST(TensorBoard, AFullDiskTakesARecordWholeOrNotAtAll) {
  const Scratch scratch;
  TensorBoardFile file(scratch.path(), -1);
  const std::string before = slurp(file.path());
  std::string message;
  {
    const test::FileSizeLimit limit(before.size() + 20);
    message = test::message_of<Failure>([&] { file.add_text(1, "t", std::string(1000, 'x')); });
  }
  EXPECT_EQ(message, "cannot write " + file.path() + ": File too large");
  EXPECT_EQ(slurp(file.path()), before);
  {
    const test::FileSizeLimit limit(3);
    EXPECT_THROW(TensorBoardFile(scratch.path("other"), -1), Failure);
  }
  EXPECT_EQ(test::entries(scratch.path("other")), 0u);
}

}  // namespace
}  // namespace convoy::train
