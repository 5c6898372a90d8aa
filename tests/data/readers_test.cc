#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>

#include "convoy/data/dataset.h"
#include "data/readers/image_list.h"
#include "tests/data/support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

Bytes gzipped(const Bytes& bytes) {
  Bytes out(bytes.size() + 1000);
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes cut(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

// An IDX file whose elements are 0, 1, 2, ...
Bytes idx(const std::vector<int>& sizes, int type = 8) {
  Bytes bytes = to_bytes({0, 0, type, static_cast<int>(sizes.size())});
  int total = 1;
  for (const int size : sizes) {
    bytes = joined(bytes, to_bytes({size >> 24, size >> 16, size >> 8, size}));
    total *= size;
  }
  for (int i = 0; i < total; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

class Idx : public testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const Bytes& image_file, const Bytes& label_file) {
    write_bytes(images, image_file);
    write_bytes(labels, label_file);
    return open_idx(images, labels);
  }
  void expect_refused(const Bytes& image_file, const Bytes& label_file,
                      const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { open(image_file, label_file); }, parts);
  }

  Scratch folder;
  std::string images = folder.path("images");
  std::string labels = folder.path("labels");
  Bytes scratch;
};

TEST_F(Idx, Mnist) {
  const std::string prefix = test::source_folder() + "/data/mnist/t10k-";
  const auto set = open_idx(prefix + "images-idx3-ubyte.gz", prefix + "labels-idx1-ubyte.gz");
  EXPECT_EQ(set->size(), 10000u);
  ASSERT_EQ(set->classes().size(), 10u);
  EXPECT_EQ(set->classes()[9], "9");
  const std::vector<std::int64_t> first = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(set->label(i), first[i]);
    EXPECT_EQ(set->read(i, scratch).label, first[i]);
  }
  const Record record = set->read(9999, scratch);
  EXPECT_EQ(record.shape, (Shape{1, 28, 28}));
  EXPECT_EQ(record.encoding, Encoding::planar_u8);
  EXPECT_EQ(record.bytes.size(), 784u);
  EXPECT_TRUE(scratch.empty());
  EXPECT_EQ(set->key(17), prefix + "images-idx3-ubyte.gz[17]");
  EXPECT_EQ(
      set->fingerprint(),
      open_idx(prefix + "images-idx3-ubyte.gz", prefix + "labels-idx1-ubyte.gz")->fingerprint());
  // The mean of all pixels that everybody normalizes with is 0.1307 (of the training images).
  double total = 0;
  for (std::size_t i = 0; i < set->size(); ++i) {
    for (const std::byte b : set->read(i, scratch).bytes) total += std::to_integer<int>(b);
  }
  EXPECT_NEAR(total / (255.0 * 784 * 10000), 0.1325, 0.0005);
}

TEST_F(Idx, ThreeAndFourDimensionsPlainAndCompressed) {
  for (const bool compressed : {false, true}) {
    const Bytes three = idx({5, 2, 3});
    const Bytes four = idx({5, 3, 2, 2});
    const Bytes five = idx({5});
    auto set = open(compressed ? gzipped(three) : three, compressed ? gzipped(five) : five);
    EXPECT_EQ(set->size(), 5u);
    EXPECT_EQ(set->classes(), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
    EXPECT_EQ(set->read(4, scratch).shape, (Shape{1, 2, 3}));
    EXPECT_EQ(set->read(4, scratch).bytes[0], std::byte{24});
    const std::uint64_t before = set->fingerprint();
    set = open(compressed ? gzipped(four) : four, five);
    EXPECT_EQ(set->read(1, scratch).shape, (Shape{3, 2, 2}));
    EXPECT_EQ(set->read(1, scratch).bytes[11], std::byte{23});
    EXPECT_NE(set->fingerprint(), before);
  }
  // Two compressed pieces one after another are one file, as for gzip.
  const Bytes file = idx({5, 2, 3});
  const Bytes front(file.begin(), file.begin() + 20);
  const Bytes back(file.begin() + 20, file.end());
  EXPECT_EQ(open(joined(gzipped(front), gzipped(back)), idx({5}))->size(), 5u);
}

TEST_F(Idx, ErrorsNameTheFileAndTheProblem) {
  const Bytes good = idx({5, 2, 3});
  const Bytes five = idx({5});
  expect_error<UsageError>([&] { open_idx(folder.path("nothing"), labels); }, {labels});
  write_bytes(labels, five);
  expect_error<UsageError>([&] { open_idx(folder.path("nothing"), labels); },
                           {folder.path("nothing")});
  expect_refused({}, five, {images, "truncated", "header"});
  expect_refused(to_bytes({0, 0, 8, 3, 0, 0}), five, {images, "truncated", "header"});
  expect_refused(to_bytes({1, 2, 3, 4, 5, 6, 7, 8}), five, {images, "not an IDX file"});
  expect_refused(idx({5, 2, 3}, 0x0d), five, {images, "type 0x0d", "unsigned bytes"});
  expect_refused(idx({5, 1, 1, 2, 3}), five, {images, "5 dimensions"});
  expect_refused(idx({5, 6}), five, {images, "2 dimensions (5 x 6)", "3 or 4"});
  expect_refused(five, five, {images, "1 dimensions (5)", "labels?"});
  expect_refused(good, good, {labels, "3 dimensions (5 x 2 x 3)", "images?"});
  expect_refused(cut(good, good.size() - 1), five,
                 {images, "truncated", "5 x 2 x 3 = 30 bytes", "29"});
  expect_refused(joined(good, {std::byte{0}}), five, {images, "bytes follow", "= 30"});
  expect_refused(good, idx({4}), {images + " holds 5 images", labels + " 4 labels"});
  expect_refused(idx({0, 2, 3}), idx({0}), {images, "no images"});
  expect_refused(idx({5, 0, 3}), five, {images, "a side of 0"});
}

TEST_F(Idx, SizesThatAreAbsurdAreRefusedBeforeMemoryIsAllocated) {
  Bytes huge = idx({5, 2, 3});
  huge[4] = huge[8] = huge[12] = std::byte{0x7f};
  expect_refused(huge, idx({5}), {images, "the header says"});
  huge[12] = std::byte{0};
  expect_refused(huge, idx({5}), {images, "truncated", "at most 30"});
  expect_refused(gzipped(huge), idx({5}), {images, "truncated", "at most"});
}

TEST_F(Idx, DamagedCompressionIsRefused) {
  const Bytes good = idx({20, 10, 10});
  const Bytes labels_of_20 = idx({20});
  Bytes packed = gzipped(good);
  expect_refused(cut(packed, packed.size() - 10), labels_of_20, {images, "truncated"});
  expect_refused(cut(packed, packed.size() - 4), labels_of_20, {images, "truncated"});
  expect_refused(joined(packed, to_bytes({1, 2, 3})), labels_of_20,
                 {images, "3 bytes follow the end"});
  expect_refused(gzipped(joined(good, to_bytes({1}))), labels_of_20, {images, "bytes follow"});
  expect_refused(gzipped(cut(good, 1000)), labels_of_20, {images, "truncated"});
  packed[packed.size() - 6] ^= std::byte{1};  // the checksum
  expect_refused(packed, labels_of_20, {images, "damaged"});
}

// `count` records whose pixels are their number and whose fine label is `first + number`.
Bytes cifar(CifarKind kind, int count, int first = 0) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    if (kind == CifarKind::cifar100) bytes.push_back(static_cast<std::byte>(i % 20));
    bytes.push_back(static_cast<std::byte>(first + i));
    bytes.insert(bytes.end(), 3072, static_cast<std::byte>(first + i));
  }
  return bytes;
}

class Cifar : public testing::Test {
 protected:
  Scratch folder;
  std::string one = folder.path("data_batch_1.bin");
  std::string two = folder.path("data_batch_2.bin");
  std::string names = folder.path("batches.meta.txt");
  Bytes scratch;
};

TEST_F(Cifar, SeveralFilesInOrder) {
  write_bytes(one, cifar(CifarKind::cifar10, 3));
  write_bytes(two, cifar(CifarKind::cifar10, 4, 5));
  const auto set = open_cifar(CifarKind::cifar10, {one, two});
  EXPECT_EQ(set->size(), 7u);
  EXPECT_EQ(set->classes().size(), 10u);
  EXPECT_EQ(set->classes()[3], "3");
  EXPECT_EQ(set->key(2), one + "[2]");
  EXPECT_EQ(set->key(3), two + "[0]");
  const Record record = set->read(6, scratch);
  EXPECT_EQ(record.shape, (Shape{3, 32, 32}));
  EXPECT_EQ(record.label, 8);
  EXPECT_EQ(record.bytes.size(), 3072u);
  EXPECT_EQ(record.bytes[3071], std::byte{8});
  EXPECT_NE(set->fingerprint(), open_cifar(CifarKind::cifar10, {two, one})->fingerprint());
}

TEST_F(Cifar, OfAHundredTheFineLabelCounts) {
  write_bytes(one, cifar(CifarKind::cifar100, 3, 90));
  const auto set = open_cifar(CifarKind::cifar100, {one});
  EXPECT_EQ(set->classes().size(), 100u);
  EXPECT_EQ(set->label(2), 92);
  EXPECT_EQ(set->read(2, scratch).bytes[0], std::byte{92});
}

TEST_F(Cifar, NamesOfClasses) {
  write_bytes(one, cifar(CifarKind::cifar10, 1));
  std::ofstream(names)
      << "airplane\r\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
  EXPECT_EQ(open_cifar(CifarKind::cifar10, {one}, names)->classes()[0], "airplane");
  EXPECT_EQ(open_cifar(CifarKind::cifar10, {one}, names)->classes()[9], "truck");
  std::ofstream(names) << "airplane\nautomobile\n";
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}, names); },
                           {names, "2 names", "10 classes"});
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}, folder.path("none")); },
                           {folder.path("none")});
}

TEST_F(Cifar, ErrorsNameTheFileAndTheProblem) {
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {}); }, {"CIFAR-10", "no files"});
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}); }, {one});
  write_bytes(one, cut(cifar(CifarKind::cifar10, 2), 2 * 3073 - 1));
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}); },
                           {one, "6145 bytes", "multiple of 3073"});
  write_bytes(one, {});
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}); }, {one, "0 bytes"});
  write_bytes(one, cifar(CifarKind::cifar10, 2, 9));
  expect_error<UsageError>([&] { open_cifar(CifarKind::cifar10, {one}); },
                           {one, "image 1", "label 10", "CIFAR-10"});
  write_bytes(one, cifar(CifarKind::cifar100, 21));
  Bytes bad = cifar(CifarKind::cifar100, 1);
  bad[0] = std::byte{20};
  write_bytes(two, bad);
  expect_error<UsageError>(
      [&] {
        open_cifar(CifarKind::cifar100, {one, two});
      },
      {two, "image 0", "label 20, 0", "CIFAR-100"});
}

class ImageFolder : public testing::Test {
 protected:
  void add(const std::string& to, const std::string& from) {
    fs::create_directories(fs::path(folder.path(to)).parent_path());
    fs::copy_file(fixture(from), folder.path(to));
  }

  Scratch folder;
  Bytes scratch;
};

TEST_F(ImageFolder, ClassesAndFilesInAlphabeticalOrder) {
  add("dog/b.jpg", "color420.jpg");
  add("dog/a.JPEG", "gray.jpg");
  add("cat/deep/er/z.png", "pattern.png");
  add("cat/x.Png", "color444.jpg");  // a JPEG all the same
  add("cat/.hidden.jpg", "gray.jpg");
  add("cat/.hidden/x.jpg", "gray.jpg");
  add(".git/x.jpg", "gray.jpg");
  add("notes.jpg", "gray.jpg");
  std::ofstream(folder.path("cat/notes.txt")) << "not an image";
  const auto set = open_image_folder(folder.path());
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(set->size(), 4u);
  const std::vector<std::string> keys = {"cat/deep/er/z.png", "cat/x.Png", "dog/a.JPEG",
                                         "dog/b.jpg"};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(set->key(i), folder.path(keys[i]));
    EXPECT_EQ(set->label(i), i < 2 ? 0 : 1);
  }
  const Record png = set->read(0, scratch);
  EXPECT_EQ(png.encoding, Encoding::png);
  EXPECT_EQ(Bytes(png.bytes.begin(), png.bytes.end()), read_file(fixture("pattern.png")));
  EXPECT_EQ(set->read(1, scratch).encoding, Encoding::jpeg);
  EXPECT_EQ(set->read(3, scratch).label, 1);
}

TEST_F(ImageFolder, TheFingerprintKnowsNamesSizesAndLabels) {
  add("a/1.jpg", "color420.jpg");
  add("b/2.jpg", "color420.jpg");
  const auto fingerprint = [&] { return open_image_folder(folder.path())->fingerprint(); };
  const std::uint64_t before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  fs::rename(folder.path("b/2.jpg"), folder.path("b/3.jpg"));
  const std::uint64_t renamed = fingerprint();
  EXPECT_NE(renamed, before);
  add("a/4.jpg", "color420.jpg");
  fs::rename(folder.path("a/1.jpg"), folder.path("b/2.jpg"));
  EXPECT_NE(fingerprint(), renamed);
  fs::resize_file(folder.path("b/2.jpg"), 10);
  EXPECT_NE(fingerprint(), renamed);
}

TEST_F(ImageFolder, ErrorsNameTheFolderAndTheProblem) {
  const auto refused = [&](const std::string& path, const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { open_image_folder(path); }, parts);
  };
  refused(folder.path("nothing"), {folder.path("nothing"), "no such folder"});
  std::ofstream(folder.path("file")) << "x";
  refused(folder.path("file"), {folder.path("file"), "not a folder"});
  refused(folder.path(), {folder.path(), "no subfolders"});
  add("cat/a.jpg", "gray.jpg");
  fs::create_directories(folder.path("dog/deep"));
  std::ofstream(folder.path("dog/notes.txt")) << "x";
  refused(folder.path(), {folder.path("dog"), "no .jpg, .jpeg or .png"});
}

// Ranks of other hosts see another folder at the same path: here, at a path of their own.
class ImageFolders : public ImageFolder {
 protected:
  void fill(int images) {
    for (int i = 0; i < images; ++i) {
      add((i % 2 == 0 ? "cat/" : "dog/") + std::to_string(100 + i) + ".jpg", "gray.jpg");
    }
    for (const char* rank : {"1", "2"})
      fs::copy(folder.path(), other.path(rank), fs::copy_options::recursive);
  }
  std::string of_rank(int rank) {
    return rank == 0 ? folder.path() : other.path(std::to_string(rank));
  }
  void refused(const std::vector<std::string>& parts) {
    run_ranks(3, [&](Peers& peers) {
      expect_error<UsageError>([&] { open_image_folder(of_rank(peers.rank()), peers); }, parts);
    });
  }

  Scratch other;
};

TEST_F(ImageFolders, OneRankLooksAndTellsTheOthers) {
  fill(9);
  fs::copy(folder.path("cat/100.jpg"), other.path("1/cat/99.jpg"));  // nobody looks there
  const auto alone = open_image_folder(folder.path());
  run_ranks(3, [&](Peers& peers) {
    const std::string mine = of_rank(peers.rank());
    const auto set = open_image_folder(mine, peers);
    EXPECT_EQ(set->classes(), alone->classes());
    EXPECT_EQ(set->fingerprint(), alone->fingerprint());
    ASSERT_EQ(set->size(), 9u);
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_EQ(set->key(i), mine + alone->key(i).substr(folder.path().size()));
      EXPECT_EQ(set->label(i), alone->label(i));
    }
    Bytes bytes;
    EXPECT_EQ(set->read(8, bytes).bytes.size(), fs::file_size(folder.path("dog/107.jpg")));
  });
}

TEST_F(ImageFolders, AnotherFolderOnAnotherHostIsAnErrorOnAllRanks) {
  fill(7);
  fs::resize_file(other.path("2/cat/100.jpg"), 10);
  refused({other.path("2/cat/100.jpg"), "10 bytes on " + host_name(), "for another rank"});
  fs::remove(other.path("2/cat/100.jpg"));
  refused({other.path("2/cat/100.jpg"), host_name(), "No such file"});
}

TEST_F(ImageFolders, AFolderThatCannotBeListedIsAnErrorOnAllRanks) {
  fill(2);
  fs::remove(folder.path("dog/101.jpg"));
  refused({folder.path("dog"), "no .jpg, .jpeg or .png"});
}

TEST(ImageList, TakesFewBytesAName) {
  ImageList list;
  list.classes = {"", "n01440764", "n01443537"};
  for (int i = 0; i < 5000; ++i)
    list.names.push_back("n01440764_" + std::to_string(10000 + 3 * i) + ".JPEG");
  list.names.push_back("");
  list.names.push_back(std::string(70'000, 'x'));
  list.names.push_back(std::string(69'999, 'x') + "\xff");
  list.ends = {0, 5001, list.names.size()};
  const std::vector<std::byte> bytes = pack_list(list);
  EXPECT_LT(bytes.size(), 5000 * 10 + 71'000u);
  const ImageList same = unpack_list(bytes);
  EXPECT_EQ(same.classes, list.classes);
  EXPECT_EQ(same.names, list.names);
  EXPECT_EQ(same.ends, list.ends);
}

TEST_F(ImageFolder, AFileThatVanishedIsAFailure) {
  add("cat/a.jpg", "gray.jpg");
  const auto set = open_image_folder(folder.path());
  fs::remove(folder.path("cat/a.jpg"));
  expect_error<Failure>([&] { set->read(0, scratch); },
                        {folder.path("cat/a.jpg"), host_name(), "No such file"});
}

}  // namespace
}  // namespace convoy::data
