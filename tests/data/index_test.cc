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

using Lists = std::vector<std::vector<std::uint32_t>>;

// Records of 10 bytes with these labels.
Bytes list_bytes(const Lists& lists) {
  IndexBuilder builder;
  for (std::size_t i = 0; i < lists.size(); ++i)
    builder.add({i % 2 == 0 ? "a.jpg" : "b", 100 * (i + 1), 10, i, 7}, lists[i]);
  return builder.finish(header_of(5000));
}

TEST(Index, ARecordHasAnyNumberOfLabels) {
  for (const Lists& lists : {Lists{{1}, {0}, {}, {0, 1}, {1}}, Lists{{0, 1}, {0}}, Lists{{}, {}}}) {
    const Bytes bytes = list_bytes(lists);
    EXPECT_EQ(bytes[8], std::byte{2});
    const Index index(bytes, "an.index");
    EXPECT_TRUE(index.label_lists());
    ASSERT_EQ(index.size(), lists.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      EXPECT_EQ(index.labels(i), std::vector<std::int64_t>(lists[i].begin(), lists[i].end()));
      EXPECT_EQ(index[i].label, lists[i].empty() ? -1 : std::int64_t{lists[i][0]});
      EXPECT_EQ(index[i].key, i % 2 == 0 ? "a.jpg" : "b");
      EXPECT_EQ(index[i].checksum, i);
    }
    EXPECT_EQ(index.header().classes, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(index.header().about, "a = 1\n");
  }
  // Labels are part of what a data set is.
  const auto fingerprint = [](const Lists& lists) {
    return Index(list_bytes(lists), "i").fingerprint();
  };
  EXPECT_EQ(fingerprint({{}, {0}}), fingerprint({{}, {0}}));
  EXPECT_NE(fingerprint({{}, {0}}), fingerprint({{}, {1}}));
  EXPECT_NE(fingerprint({{}, {0}}), fingerprint({{0}, {}}));
}

// Which programs read that know nothing of lists.
TEST(Index, WithOneLabelEachItIsOfVersion1) {
  const Bytes old =
      index_bytes({{"cat/1.jpg", 512, 100, 1, 2, 0}, {"x", 1024, 7, 5, 6, 1}}, header_of(5000));
  EXPECT_EQ(xxh3(old), 0xd2d1509b1d051857u);  // as they wrote it
  EXPECT_EQ(Index(old, "an.index").fingerprint(), 0x12617faacee94823u);
  const Bytes bytes = list_bytes({{1}, {0}, {1}});
  EXPECT_EQ(bytes,
            index_bytes(
                {{"a.jpg", 100, 10, 0, 7, 1}, {"b", 200, 10, 1, 7, 0}, {"a.jpg", 300, 10, 2, 7, 1}},
                header_of(5000)));
  EXPECT_EQ(bytes[8], std::byte{1});
  const Index index(bytes, "an.index");
  EXPECT_FALSE(index.label_lists());
  EXPECT_EQ(index.labels(0), std::vector<std::int64_t>{1});
}

void expect_every_bit_and_byte_counts(const Bytes& good) {
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

TEST(Index, EveryBitAndEveryByteCounts) {
  expect_every_bit_and_byte_counts(
      index_bytes({{"cat/1.jpg", 512, 100, 1, 2, 0}, {"x", 1024, 7, 5, 6, 1}}, header_of(5000)));
  expect_every_bit_and_byte_counts(list_bytes({{}, {0, 1}, {1}}));
}

// Changes bytes of an index, makes its checksums fit, and expects it to be refused.
class Changed {
 public:
  explicit Changed(Bytes good) : good_(std::move(good)) {}

  template <class Error = IndexError>
  void refused(std::size_t at, std::initializer_list<int> values, const std::string& why) const {
    Bytes bytes = good_;
    for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
    reseal(bytes);
    expect_error<Error>([&] { Index(bytes, "an.index"); }, {"an.index: ", why});
  }

 private:
  Bytes good_;
};

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

  const Changed changed(
      index_bytes({{"a", 512, 1, 0, 0, 0}, {"b", 1024, 1, 0, 0, 1}}, header_of(5000)));
  changed.refused<UsageError>(8, {3}, "version 3, while this Convoy reads 1 and 2");
  changed.refused<UsageError>(8, {0}, "version 0, while this Convoy reads 1 and 2");
  changed.refused(8, {2}, "record 1 has labels 0 to 1 of 0");
  changed.refused(12, {129}, "fields that version 1 does not have");
  changed.refused(80, {1}, "fields that version 1 does not have");
  changed.refused(90, {1}, "fields that version 1 does not have");
  changed.refused(16, {9}, "the parts don't fit");
  changed.refused(23, {255}, "the parts don't fit");
  changed.refused(24, {1}, "1 bytes follow");
  changed.refused(32, {3}, "2 class names, where the header says 3");
  changed.refused(128 + 44, {1}, "record 0 has flags");
  changed.refused(128 + 32, {9}, "record 0 has a key outside");
  changed.refused(128 + 48 + 32, {1}, "keys of no record");
}

TEST(Index, InconsistentListsAreRefused) {
  const Lists lists = {{0, 1}, {}, {1}};
  const Bytes good = list_bytes(lists);
  // Behind the records, keys "a.jpg", "b", "a.jpg" and names "cat", "dog".
  const std::size_t table = 128 + 3 * 48 + 11 + 8, end = 128 + 40;
  ASSERT_EQ(good.size(), table + 3 * 4 + 6);
  const Changed changed(good);
  changed.refused(8, {1}, "fields that version 1 does not have");
  changed.refused(88, {1}, "fields that version 2 does not have");
  changed.refused(119, {1}, "fields that version 2 does not have");
  // Fewer labels than there is room for, more, and absurdly many.
  changed.refused(80, {2}, "4 bytes follow");
  changed.refused(80, {4}, "the parts don't fit");
  changed.refused(80, {0, 0, 0, 0, 0, 0, 0, 0x40}, "the parts don't fit");
  changed.refused(80, {255, 255, 255, 255, 255, 255, 255, 255}, "the parts don't fit");
  // Ends beyond the table, backwards, short of it.
  changed.refused(end, {4}, "record 0 has labels 0 to 4 of 3");
  changed.refused(end, {2, 0, 0, 0, 0, 0, 0, 0x80}, "record 0 has labels 0 to 9223372036854775810");
  changed.refused(end + 48, {1}, "record 1 has labels 2 to 1 of 3");
  changed.refused(end + 2 * 48, {2}, "labels of no record");
  // Labels that are no class, or not ascending.
  changed.refused(table + 8, {2}, "record 2 has the label 2; there are 2 classes");
  changed.refused(table + 8, {0, 0, 0, 0x80}, "record 2 has the label 2147483648");
  changed.refused(table, {1}, "record 0 has labels that don't ascend");
  changed.refused(table + 4, {0}, "record 0 has labels that don't ascend");
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
  EXPECT_EQ(index[kCount - 1].label, 1);
}

TEST(Index, AListCostsItsLabelsAndNothingElse) {
  constexpr std::size_t kCount = 300'000;
  const Lists lists = {{1}, {0, 1}, {}};
  IndexBuilder builder;
  for (std::size_t i = 0; i < kCount; ++i) builder.add({"r", 512 * (i + 1), 0, 0, 0}, lists[i % 3]);
  const Bytes bytes = builder.finish(header_of(512 * (kCount + 3)));
  EXPECT_EQ(bytes.size(), 128 + 49 * kCount + 8 + 4 * kCount + 6);  // one label on average
  const Index index(bytes, "an.index");
  EXPECT_EQ(index.labels(kCount - 2), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(index[kCount - 3].label, 1);
}

}  // namespace
}  // namespace convoy::data
