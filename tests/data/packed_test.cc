// Tars that are indexed, and data sets of packed files.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "convoy/base/checksum.h"
#include "convoy/data/loader.h"
#include "convoy/data/packed.h"
#include "data/packed/index.h"
#include "tests/data/packed_fixture.h"
#include "tests/data/reseal.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

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
  labeled.emplace_back("x/3.png", images[2]);
  labeled.emplace_back("x/3.cls", as_bytes("1"));
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

// Otherwise folders would be classes, without a word.
TEST_F(Packed, LabelsWithoutAnImageBesideThem) {
  const Bytes zero = as_bytes("0"), one = as_bytes("1");
  const auto refused = [&](const Members& labeled, const std::string& first) {
    write_bytes(tar, make_tar(labeled));
    expect_error<UsageError>(
        [&] { index_tar(tar); },
        {tar, "labels without an image beside them, as " + first + " (2 in all)"});
  };
  refused({{"train/images/0.jpg", images[0]},
           {"train/images/1.jpg", images[1]},
           {"train/labels/0.cls", zero},
           {"train/labels/1.cls", one}},
          "train/labels/0.cls");
  refused({{"t/0.cls.json", as_bytes("[0]")},
           {"t/1.cls.json", as_bytes("[]")},
           {"t/0.jpg", images[0]},
           {"t/1.jpg", images[1]}},
          "t/0.cls.json");
  // Where images have labels, others are counted.
  write_bytes(tar, make_tar({{"t/0.jpg", images[0]},
                             {"t/0.cls", zero},
                             {"t/1.cls", one},
                             {"t/2.jpg", images[1]},
                             {"t/2.cls", one},
                             {"u/3.cls", one}}));
  const IndexTarResult result = index_tar(tar);
  EXPECT_EQ(result.records, 2u);
  EXPECT_EQ(result.others, 2u);
  EXPECT_EQ(result.lone_labels, 2u);
}

TEST_F(Packed, AFolderOfTheSameImagesWouldHaveOtherClasses) {
  const auto indexed = [&](const std::vector<std::string>& names) {
    Members picture;
    for (const std::string& name : names) picture.emplace_back(name, images[0]);
    write_bytes(tar, make_tar(picture));
    const IndexTarResult result = index_tar(tar);
    return std::pair(result.classes, result.classes_by_first_folders);
  };
  using Counts = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(indexed({"a/x/0.jpg", "a/y/1.jpg", "c/2.jpg"}), Counts(3, 2));
  EXPECT_EQ(indexed({"a/x/0.jpg", "b/x/1.jpg"}), Counts(1, 2));
  EXPECT_EQ(indexed({"./s/a/0.jpg", "./s/b/1.jpg", "./s/a/2.jpg"}), Counts(2, 0));
  EXPECT_EQ(indexed({"s/ab/0.jpg", "s/a/1.jpg"}), Counts(2, 0));
  EXPECT_EQ(indexed({"a/0.jpg", "a/b/1.jpg"}), Counts(2, 0));
  EXPECT_EQ(indexed({"a/0.jpg"}), Counts(1, 0));
}

TEST_F(Packed, AnImageWithASecondExtensionIsNotTheSamples) {
  Members labeled;
  labeled.emplace_back("a/1.depth.png", images[2]);  // in front of its sample's image, or behind it
  labeled.emplace_back("a/1.jpg", images[0]);
  labeled.emplace_back("a/1.seg.PNG", images[2]);
  labeled.emplace_back("a/1.cls", as_bytes("1"));
  labeled.emplace_back("v1.2/2.JPG", images[1]);  // dots of folders don't count
  labeled.emplace_back("v1.2/2.cls", as_bytes("0"));
  labeled.emplace_back("v1.2/2.txt", as_bytes("a caption"));
  write_bytes(tar, make_tar(labeled));
  const IndexTarResult result = index_tar(tar);
  EXPECT_EQ(result.records, 2u);
  EXPECT_EQ(result.others, 3u);
  EXPECT_EQ(result.auxiliary, 2u);
  const PackedFiles set({tar});
  EXPECT_EQ(set.key(0), tar + ":a/1.jpg");
  EXPECT_EQ(set.label(0), 1);
  EXPECT_EQ(set.key(1), tar + ":v1.2/2.JPG");
  EXPECT_TRUE(verify_packed(tar, {true, 1, {}}).problems.empty());
  labeled = {{"cat/cat.1.jpg", images[0]}, {"cat/cat.2.jpg", images[1]}};
  write_bytes(tar, make_tar(labeled));
  expect_error<UsageError>([&] { index_tar(tar); },
                           {tar, "second extension", "cat/cat.1.jpg", "convoy pack"});
}

TEST_F(Packed, NamesOfClassesThatTheUserGives) {
  std::ofstream(folder.path("names")) << "dog\r\nbird\ncat\n\n";
  IndexTarOptions options;
  options.classes = folder.path("names");
  EXPECT_EQ(index_tar(tar, options).classes, 3u);
  EXPECT_EQ(PackedFiles({tar}).label(0), 2);
  std::ofstream(folder.path("names")) << "dog\nbird\n";
  expect_error<UsageError>([&] { index_tar(tar, options); }, {"cat/0.jpg", "'cat'", "2 given"});
  std::ofstream(folder.path("names")) << "dog\ndog\n";
  expect_error<UsageError>([&] { index_tar(tar, options); },
                           {folder.path("names"), "'dog'", "twice"});
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
  Bytes two = good;
  two.insert(two.end(), good.begin(), good.end());
  refused(two, {tar, "behind its end mark", std::to_string(good.size())});
  refused(make_tar({{"a.jpg", images[0]}}), {tar, "a.jpg", "no class"});
  refused(make_tar({{"x/a.jpg", images[0]}, {"x/a.jpg", images[1]}}),
          {tar, "two members", "x/a.jpg"});
  write_bytes(folder.path("plain.tar"), good);
  ASSERT_EQ(std::system(("gzip '" + (folder.path("plain.tar")) + "'").c_str()), 0);
  expect_error<UsageError>([&] { index_tar(folder.path("plain.tar.gz")); }, {"gzip", "gunzip"});
  expect_error<UsageError>([&] { index_tar(folder.path("nothing.tar")); }, {"nothing.tar"});
}

TEST_F(Packed, SeveralFilesAreOneDataSet) {
  const std::string second = folder.path("b.tar");
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
    EXPECT_TRUE(
        std::equal(images[i].begin(), images[i].end(), all.begin() + static_cast<long>(at)));
    at += images[i].size();
  }
  EXPECT_EQ(at, all.size());
  expect_error<UsageError>([&] { set.load({4, 7}, all); }, {"3 records"});
  // Other classes, or the same in another order.
  write_bytes(second, make_tar({{"cat/7.jpg", images[1]}, {"eel/8.png", images[2]}}));
  index_tar(second);
  expect_error<UsageError>([&] { PackedFiles({tar, second}); }, {second, "2 classes", tar});
  expect_error<UsageError>([] { PackedFiles(std::vector<std::string>{}); }, {"no files"});
  fs::create_directories(folder.path("empty"));
  expect_error<UsageError>([&] { PackedFiles({folder.path("empty")}); }, {"no .tar"});
}

// The usual limit is 1024, and ImageNet has more shards.
TEST_F(Packed, MoreFilesThanTheProcessMayOpenAtFirst) {
  constexpr int kFiles = 60;
  index_tar(tar);
  const std::string all = folder.path("all");
  fs::create_directories(all);
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = all + "/" + std::to_string(100 + i) + ".tar";
    fs::create_hard_link(tar, name);
    fs::create_hard_link(tar + ".index", name + ".index");
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GT(before.rlim_max, 2u * kFiles);
  const auto open_files = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(open_files) + kFiles / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(PackedFiles({all}).size(), 6u * kFiles);
  few.rlim_max = few.rlim_cur;
  EXPECT_EXIT(
      {
        setrlimit(RLIMIT_NOFILE, &few);
        try {
          PackedFiles({all});
        } catch (const UsageError& error) {
          std::fputs(error.what(), stderr);
          _exit(3);
        }
        _exit(0);
      },
      testing::ExitedWithCode(3), "packed data of 60 files, from .*100.tar on: .*ulimit -n");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// As bad as one that can't be decoded, and no end for want of memory.
TEST_F(Packed, ARecordThatIsLargerThanAnyPicture) {
  constexpr std::uint64_t kSize = std::uint64_t{2} << 30;
  Bytes head;
  append_tar_header(head, "cat/0.jpg", kSize);
  write_bytes(tar, head);
  const std::uint64_t size = head.size() + kSize + kTarEnd;
  fs::resize_file(tar, size);  // full of holes
  IndexBuilder builder;
  const std::uint32_t label = 0;
  builder.add({"cat/0.jpg", head.size(), kSize, 1, xxh3(head)}, std::span(&label, 1));
  write_bytes(tar + ".index", builder.finish({size, 1, {"cat"}, ""}));
  const PackedFiles set({tar});
  expect_error<UsageError>([&] { set.read(0, scratch); },
                           {tar + ":cat/0.jpg", "2147483648 bytes", "1 GiB"});
}

TEST_F(Packed, NamesOfOthersDoNothingToATerminal) {
  write_bytes(tar, make_tar({{"a\x1b[31m/1\n2.jpg", images[0]}, {"a\x1b[31m/3.jpg", images[1]}}));
  index_tar(tar);
  flip(tar, offset_of(0) + 300);
  const PackedFiles set({tar});
  EXPECT_EQ(set.key(0), tar + ":a\\x1b[31m/1\\x0a2.jpg");
  expect_error<UsageError>([&] { set.read(0, scratch); }, {"a\\x1b[31m/1\\x0a2.jpg", "damaged"});
}

TEST_F(Packed, ThreadsLoadParts) {
  index_tar(tar);
  const PackedFiles set({tar});
  Bytes all(static_cast<std::size_t>(set.bytes({0, 6})));
  std::vector<std::jthread> threads;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 6; i += 2) {
    const auto size = static_cast<std::size_t>(set.bytes({i, i + 2}));
    threads.emplace_back([&set, i, part = std::span(all).subspan(at, size)] {
      set.load({i, i + 2}, part);
    });
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
  expect_error<UsageError>([&] { set.read(4, scratch); }, {tar, "dog/1.jpg", "damaged"});
  Bytes all(static_cast<std::size_t>(set.bytes({0, 6})));
  expect_error<UsageError>([&] { set.load({0, 6}, all); }, {tar, "dog/1.jpg", "damaged"});
  // As bad as one that can't be decoded.
  TransformOptions transform;
  transform.crop = Crop::random_resized;
  transform.height = transform.width = 8;
  transform.channels = 3;
  LoaderOptions options;
  options.batch = 6;
  const auto data = std::make_shared<PackedFiles>(std::vector<std::string>{tar});
  Loader strict(data, transform, options);
  expect_error<UsageError>([&] { strict.next(); }, {"dog/1.jpg"});
  options.on_bad = OnBad::skip;
  Loader skipping(data, transform, options);
  EXPECT_EQ(skipping.next()->size(), 5u);
  EXPECT_EQ(skipping.statistics().skipped, 1u);
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
  index[8] = std::byte{3};
  reseal(index);
  write_bytes(tar + ".index", index);
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar + ".index", "version 3"});
  // No record.
  write_bytes(tar, Bytes(1024));
  write_bytes(tar + ".index", IndexBuilder().finish({1024, xxh3(Bytes(1024)), {"cat"}, ""}));
  expect_error<UsageError>([&] { PackedFiles({tar}); }, {tar, "no record"});
  EXPECT_TRUE(verify_packed(tar).problems.empty());
}

}  // namespace
}  // namespace convoy::data
