// Indexes, data sets of packed files, and their verification.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "convoy/data/loader.h"
#include "convoy/data/packed.h"
#include "data/packed/index.h"
#include "tests/data/packed_support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

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

  const Bytes good = index_bytes({{"a", 512, 1, 0, 0, 0}, {"b", 1024, 1, 0, 0, 1}}, header_of(5000));
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

// Six images in two classes, with labels that folders say.
class Packed : public testing::Test {
 protected:
  Packed() {
    int i = 0;
    for (const char* name : {"color420.jpg", "gray.jpg", "pattern.png"}) {
      images.push_back(read_file(fixture(name)));
      const std::string number = std::to_string(i++) + fs::path(name).extension().string();
      members.emplace_back("cat/" + number, images.back());
      members.emplace_back("dog/" + number, images.back());
    }
    std::sort(members.begin(), members.end());
    members.emplace_back("notes.txt", as_bytes("not an image"));
    write_bytes(tar, make_tar(members));
  }
  void flip(const std::string& path, std::size_t at) {
    Bytes bytes = read_file(path);
    bytes[at] ^= std::byte{1};
    write_bytes(path, bytes);
  }
  std::size_t offset_of(std::size_t record) {
    return static_cast<std::size_t>(Index(read_file(tar + ".index"), tar)[record].offset);
  }

  Folder folder;
  std::string tar = folder / "a.tar";
  std::vector<Bytes> images;
  Members members;
  Bytes scratch;
};

TEST_F(Packed, AnIndexIsMadeAndTheRecordsRead) {
  const IndexTarResult result = index_tar(tar);
  EXPECT_EQ(result.index, tar + ".index");
  EXPECT_EQ(result.records, 6u);
  EXPECT_EQ(result.classes, 2u);
  EXPECT_EQ(result.others, 1u);
  const PackedFiles set({tar});
  ASSERT_EQ(set.size(), 6u);
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"cat", "dog"}));
  for (std::size_t i = 0; i < 6; ++i) {
    const Record record = set.read(i, scratch);
    EXPECT_EQ(Bytes(record.bytes.begin(), record.bytes.end()), images[i % 3]);
    EXPECT_EQ(record.encoding, i % 3 == 2 ? Encoding::png : Encoding::jpeg);
    EXPECT_EQ(record.label, i < 3 ? 0 : 1);
    EXPECT_EQ(set.label(i), record.label);
    EXPECT_EQ(set.length(i), images[i % 3].size());
  }
  EXPECT_EQ(set.key(5), tar + ":dog/2.png");
  const PackedSummary summary = inspect_packed(tar);
  EXPECT_EQ(summary.records, 6u);
  EXPECT_EQ(summary.class_records, (std::vector<std::uint64_t>{3, 3}));
  EXPECT_EQ(summary.smallest, images[1].size());
  EXPECT_EQ(summary.record_bytes, set.bytes({0, 6}));
  EXPECT_TRUE(verify_packed(tar, {true, 2, {}}).problems.empty());
}

TEST_F(Packed, LabelsOfMembersBesideTheImages) {
  Members labeled;
  labeled.emplace_back("__convoy__/classes.txt", as_bytes("tabby\nterrier\npug\n"));
  labeled.emplace_back("./x/1.jpg", images[0]);
  labeled.emplace_back("./x/1.cls", as_bytes("2\n"));
  labeled.emplace_back("x/2.cls", as_bytes(" 1"));
  labeled.emplace_back("x/2.JPEG", images[1]);
  labeled.emplace_back("x/2.left.png", images[2]);
  write_bytes(tar, make_tar(labeled));
  EXPECT_EQ(index_tar(tar).records, 3u);
  {
    const PackedFiles set({tar});
    EXPECT_EQ(set.classes(), (std::vector<std::string>{"tabby", "terrier", "pug"}));
    EXPECT_EQ(set.label(0), 2);
    EXPECT_EQ(set.label(1), 1);
    EXPECT_EQ(set.label(2), 1);
    EXPECT_EQ(set.key(0), tar + ":./x/1.jpg");
  }
  const auto refused = [&](const std::vector<std::string>& parts) {
    write_bytes(tar, make_tar(labeled));
    expect_error<UsageError>([&] { index_tar(tar); }, parts);
  };
  labeled[2].second = as_bytes("3");
  refused({tar, "./x/1.jpg", "the label 3", "3 classes"});
  labeled[2].second = as_bytes("cat");
  refused({tar, "./x/1.cls", "'cat'", "no label"});
  labeled[2].first = "elsewhere.cls";
  labeled[2].second = as_bytes("0");
  refused({tar, "./x/1.jpg", "no .cls member"});
  // Without names of classes they are digits.
  labeled.erase(labeled.begin() + 1, labeled.begin() + 3);
  labeled.erase(labeled.begin());
  write_bytes(tar, make_tar(labeled));
  EXPECT_EQ(index_tar(tar).classes, 2u);
}

TEST_F(Packed, NamesOfClassesThatTheUserGives) {
  std::ofstream(folder / "names") << "dog\r\nbird\ncat\n\n";
  IndexTarOptions options;
  options.classes = folder / "names";
  EXPECT_EQ(index_tar(tar, options).classes, 3u);
  EXPECT_EQ(PackedFiles({tar}).label(0), 2);
  std::ofstream(folder / "names") << "dog\nbird\n";
  expect_error<UsageError>([&] { index_tar(tar, options); }, {"cat/0.jpg", "'cat'", "2 given"});
  std::ofstream(folder / "names") << "dog\ndog\n";
  expect_error<UsageError>([&] { index_tar(tar, options); }, {folder / "names", "'dog'", "twice"});
}

TEST_F(Packed, TarsThatCannotBeIndexed) {
  const auto refused = [&](const Bytes& bytes, const std::vector<std::string>& parts) {
    write_bytes(tar, bytes);
    expect_error<UsageError>([&] { index_tar(tar); }, parts);
  };
  const Bytes good = make_tar(members);
  refused(Bytes(good.begin(), good.end() - 1500), {tar, "truncated"});
  refused(make_tar({{"a.txt", images[0]}}), {tar, "no .jpg"});
  refused(make_tar({}), {tar, "no .jpg"});
  refused({}, {tar, "truncated"});
  refused(make_tar({{"a.jpg", images[0]}}), {tar, "a.jpg", "no class"});
  refused(make_tar({{"x/a.jpg", images[0]}, {"x/a.jpg", images[1]}}), {tar, "two members", "x/a.jpg"});
  write_bytes(folder / "plain.tar", good);
  ASSERT_EQ(std::system(("gzip '" + (folder / "plain.tar") + "'").c_str()), 0);
  expect_error<UsageError>([&] { index_tar(folder / "plain.tar.gz"); }, {"gzip", "gunzip"});
  expect_error<UsageError>([&] { index_tar(folder / "nothing.tar"); }, {"nothing.tar"});
}

TEST_F(Packed, SeveralFilesAreOneDataSet) {
  const std::string second = folder / "b.tar";
  write_bytes(second, make_tar({{"cat/7.jpg", images[1]}, {"dog/8.png", images[2]}}));
  index_tar(tar);
  index_tar(second);
  const PackedFiles set({tar, second});
  ASSERT_EQ(set.size(), 8u);
  EXPECT_EQ(set.key(6), second + ":cat/7.jpg");
  EXPECT_EQ(set.label(7), 1);
  EXPECT_EQ(set.read(7, scratch).encoding, Encoding::png);
  EXPECT_NE(set.fingerprint(), PackedFiles({second, tar}).fingerprint());
  EXPECT_EQ(set.fingerprint(), PackedFiles({folder.path()}).fingerprint());
  Bytes all(static_cast<std::size_t>(set.bytes({4, 8})));
  set.load({4, 8}, all);
  std::size_t at = 0;
  for (const std::size_t i : {1u, 2u, 1u, 2u}) {
    EXPECT_TRUE(std::equal(images[i].begin(), images[i].end(), all.begin() + static_cast<long>(at)));
    at += images[i].size();
  }
  EXPECT_EQ(at, all.size());
  expect_error<UsageError>([&] { set.load({4, 7}, all); }, {"3 records"});
  // Other classes, or the same in another order.
  write_bytes(second, make_tar({{"cat/7.jpg", images[1]}, {"eel/8.png", images[2]}}));
  index_tar(second);
  expect_error<UsageError>([&] { PackedFiles({tar, second}); }, {second, "2 classes", tar});
  expect_error<UsageError>([] { PackedFiles(std::vector<std::string>{}); }, {"no files"});
  fs::create_directories(folder / "empty");
  expect_error<UsageError>([&] { PackedFiles({folder / "empty"}); }, {"no .tar"});
}

TEST_F(Packed, ThreadsLoadParts) {
  index_tar(tar);
  const PackedFiles set({tar});
  Bytes all(static_cast<std::size_t>(set.bytes({0, 6})));
  std::vector<std::jthread> threads;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 6; i += 2) {
    const auto size = static_cast<std::size_t>(set.bytes({i, i + 2}));
    threads.emplace_back(
        [&set, i, part = std::span(all).subspan(at, size)] { set.load({i, i + 2}, part); });
    at += size;
  }
  threads.clear();
  Bytes expected;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto bytes = set.read(i, scratch).bytes;
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(all, expected);
}

TEST_F(Packed, TheLoaderFindsDamageInARecordWhenItReadsIt) {
  index_tar(tar);
  const std::size_t at = offset_of(4) + 300;
  flip(tar, at);
  const PackedFiles set({tar});
  for (const std::size_t i : {0u, 1u, 2u, 3u, 5u}) EXPECT_NO_THROW(set.read(i, scratch));
  expect_error<Failure>([&] { set.read(4, scratch); }, {tar, "dog/1.jpg", "damaged"});
  Bytes all(static_cast<std::size_t>(set.bytes({0, 6})));
  expect_error<Failure>([&] { set.load({0, 6}, all); }, {tar, "dog/1.jpg", "damaged"});
  // Not even a loader that leaves bad records out goes on.
  TransformOptions transform;
  transform.crop = Crop::random_resized;
  transform.height = transform.width = 8;
  transform.channels = 3;
  LoaderOptions options;
  options.batch = 6;
  options.on_bad = OnBad::skip;
  Loader loader(std::make_shared<PackedFiles>(std::vector<std::string>{tar}), transform, options);
  expect_error<Failure>([&] { loader.next(); }, {"dog/1.jpg"});
}

// A mapped file would end the process with SIGBUS.
TEST_F(Packed, AFileThatShrinksIsAFailure) {
  index_tar(tar);
  const PackedFiles set({tar});
  fs::resize_file(tar, offset_of(3) + 10);
  EXPECT_NO_THROW(set.read(2, scratch));
  expect_error<Failure>([&] { set.read(3, scratch); }, {tar, host_name(), "cut it short"});
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar, "truncated"});
}

TEST_F(Packed, IndexesOfOtherTars) {
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar, "no index", "convoy index"});
  index_tar(tar);
  // Another one of the same size.
  members[0].first = "cat/x.jpg";
  write_bytes(tar, make_tar(members));
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar, "another file"});
  members[0].first = "cat/0.jpg";
  std::swap(members[1].second, members[2].second);
  write_bytes(tar, make_tar(members));
  try {
    const PackedFiles set({tar});
    set.read(1, scratch);
    ADD_FAILURE() << "the wrong record was not noticed";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("another"), std::string::npos) << error.what();
  }
  Bytes index = read_file(tar + ".index");
  index[8] = std::byte{2};
  reseal(index);
  write_bytes(tar + ".index", index);
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar + ".index", "version 2"});
  // No record.
  write_bytes(tar, Bytes(1024));
  write_bytes(tar + ".index", index_bytes({}, {1024, xxh3(Bytes(1024)), {"cat"}, ""}));
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar, "no record"});
  EXPECT_TRUE(verify_packed(tar).problems.empty());
}

TEST_F(Packed, VerificationFindsEveryFlippedBit) {
  index_tar(tar);
  for (const std::string& path : {tar, tar + ".index"}) {
    const Bytes good = read_file(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&file](std::size_t at, std::byte value) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(value)).flush();
    };
    for (std::size_t at = 0; at < good.size(); ++at) {
      put(at, good[at] ^ static_cast<std::byte>(1u << (at % 8)));
      ASSERT_EQ(verify_packed(tar).problems.size(), 1u) << path << " " << at;
      put(at, good[at]);
    }
  }
  EXPECT_TRUE(verify_packed(tar).problems.empty());
}

TEST_F(Packed, VerificationSaysWhatIsWrong) {
  index_tar(tar);
  const Index index(read_file(tar + ".index"), "");
  const std::size_t size = fs::file_size(tar);
  flip(tar, 0);
  flip(tar, offset_of(1));
  flip(tar, offset_of(5) - 1);
  flip(tar, size - 1);
  const VerifyResult result = verify_packed(tar, {false, 3, {}});
  ASSERT_EQ(result.problems.size(), 4u);
  EXPECT_EQ(result.problems[0].where, "between records");
  EXPECT_EQ(result.problems[1].where, "record");
  EXPECT_EQ(result.problems[1].key, "cat/1.jpg");
  EXPECT_EQ(result.problems[1].offset, index[1].offset);
  EXPECT_EQ(result.problems[2].where, "between records");
  EXPECT_EQ(result.problems[2].key, "dog/2.png");
  EXPECT_EQ(result.problems[3].where, "end");
  EXPECT_EQ(result.bytes, size);

  fs::resize_file(tar, offset_of(4) + 1);
  const VerifyResult cut = verify_packed(tar);
  ASSERT_EQ(cut.problems.size(), 5u);
  EXPECT_EQ(cut.problems[0].where, "tar");
  EXPECT_NE(cut.problems[0].what.find("truncated"), std::string::npos);
  EXPECT_EQ(cut.problems[3].key, "dog/1.jpg");
  EXPECT_EQ(cut.problems[4].key, "dog/2.png");

  flip(tar + ".index", 200);
  const VerifyResult broken = verify_packed(tar);
  ASSERT_EQ(broken.problems.size(), 1u);
  EXPECT_EQ(broken.problems[0].where, "index");
}

TEST_F(Packed, VerificationDecodes) {
  Bytes torn = images[0];
  torn.resize(torn.size() - 200);
  write_bytes(tar, make_tar({{"cat/0.jpg", images[0]}, {"cat/1.jpg", torn}, {"cat/2.jpg", {}}}));
  index_tar(tar);
  EXPECT_TRUE(verify_packed(tar).problems.empty());
  const VerifyResult result = verify_packed(tar, {true, 2, {}});
  ASSERT_EQ(result.problems.size(), 2u);
  EXPECT_EQ(result.problems[0].key, "cat/1.jpg");
  EXPECT_NE(result.problems[0].what.find("can't be decoded: JPEG"), std::string::npos);
  EXPECT_EQ(result.problems[1].key, "cat/2.jpg");
}

}  // namespace
}  // namespace convoy::data
