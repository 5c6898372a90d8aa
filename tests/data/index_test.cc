#include <gtest/gtest.h>

#include "data/packed/index.h"
#include "tests/data/packed_support.h"
#include "tests/data/reseal.h"

namespace convoy::data {
namespace {

Bytes index_bytes(const std::vector<IndexEntry>& entries, IndexHeader header) {
  IndexBuilder builder;
  for (const IndexEntry& entry : entries) builder.add(entry);
  return builder.finish(header);
}

IndexHeader header_of(std::uint64_t tar_bytes) {
  return {tar_bytes, 77, {"cat", "dog"}, "a = 1\n"};
}

TEST(Index, WhatIsWrittenIsRead) {
  const std::vector<IndexEntry> entries = {
      {"cat/1.jpg", 512, 100, 1, 2, 0}, {"", 612, 0, 3, 4, 1}, {"dog/2.jpg", 1024, 7, 5, 6, 1}};
  const Index index(index_bytes(entries, header_of(5000)), "an.index");
  ASSERT_EQ(index.size(), 3u);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const IndexEntry entry = index[i];
    EXPECT_EQ(entry.key, entries[i].key);
    EXPECT_EQ(entry.offset, entries[i].offset);
    EXPECT_EQ(entry.length, entries[i].length);
    EXPECT_EQ(entry.checksum, entries[i].checksum);
    EXPECT_EQ(entry.gap_checksum, entries[i].gap_checksum);
    EXPECT_EQ(entry.label, entries[i].label);
  }
  EXPECT_EQ(index.gap_begin(0), 0u);
  EXPECT_EQ(index.gap_begin(1), 612u);
  EXPECT_EQ(index.gap_begin(3), 1031u);
  EXPECT_EQ(index.header().classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(index.header().about, "a = 1\n");
  EXPECT_EQ(index.header().tail_checksum, 77u);
  EXPECT_EQ(Index(index_bytes({}, header_of(1024)), "an.index").size(), 0u);
}

TEST(Index, EveryBitAndEveryByteCounts) {
  const Bytes good =
      index_bytes({{"cat/1.jpg", 512, 100, 1, 2, 0}, {"x", 1024, 7, 5, 6, 1}}, header_of(5000));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_THROW(Index(bad, "an.index"), IndexError) << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(Index({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, "i"),
                 IndexError);
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  expect_error<IndexError>([&] { Index(longer, "an.index"); }, {"an.index", "1 bytes follow"});
}

TEST(Index, InconsistentOnesAreRefused) {
  const auto refused = [](const std::vector<IndexEntry>& entries, const std::string& why) {
    expect_error<IndexError>([&] { Index(index_bytes(entries, header_of(5000)), "an.index"); },
                             {"an.index", why});
  };
  refused({{"a", 512, 100, 0, 0, 0}, {"b", 611, 1, 0, 0, 0}}, "record 1 overlaps");
  refused({{"a", 512, 100, 0, 0, 0}, {"b", 0, 1, 0, 0, 0}}, "record 1 overlaps");
  refused({{"a", 5001, 0, 0, 0, 0}}, "record 0 lies at bytes 5001");
  refused({{"a", 4990, 11, 0, 0, 0}}, "outside of the tar's 5000");
  refused({{"a", 100, ~std::uint64_t{0}, 0, 0, 0}}, "outside of the tar's 5000");
  refused({{"a", 100, 1, 0, 0, 2}}, "the label 2; there are 2 classes");

  const Bytes good =
      index_bytes({{"a", 512, 1, 0, 0, 0}, {"b", 1024, 1, 0, 0, 1}}, header_of(5000));
  const auto changed = [&](std::size_t at, int value, const std::string& why, bool other = false) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    reseal(bytes);
    const auto open = [&] { Index(bytes, "an.index"); };
    other ? expect_error<UsageError>(open, {"an.index", why})
          : expect_error<IndexError>(open, {"an.index", why});
  };
  changed(8, 2, "version 2, while this Convoy reads 1", true);
  changed(12, 129, "fields that version 1 does not have");
  changed(90, 1, "fields that version 1 does not have");
  changed(16, 9, "the parts don't fit");
  changed(23, 255, "the parts don't fit");
  changed(24, 1, "1 bytes follow");
  changed(32, 3, "2 class names, where the header says 3");
  changed(128 + 44, 1, "record 0 has flags");
  changed(128 + 32, 9, "record 0 has a key outside");
  changed(128 + 48 + 32, 1, "keys of no record");
}

TEST(Index, TwoMillionEmptyRecords) {
  constexpr std::size_t kCount = 2'000'000;
  IndexBuilder builder;
  for (std::size_t i = 0; i < kCount; ++i) {
    builder.add({"r", 512 * (i + 1), 0, 0, 0, static_cast<std::uint32_t>(i % 2)});
  }
  const Index index(builder.finish(header_of(512 * (kCount + 3))), "an.index");
  EXPECT_EQ(index.size(), kCount);
  EXPECT_EQ(index[kCount - 1].offset, 512 * kCount);
  EXPECT_EQ(index[kCount - 1].label, 1u);
}

}  // namespace
}  // namespace convoy::data
