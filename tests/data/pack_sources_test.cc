// The kinds of sources that pack() reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "convoy/data/transform.h"
#include "data/pack/pipeline.h"
#include "tests/data/pack_support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

class PackSources : public testing::Test {
 protected:
  PackOptions options(const std::string& source) {
    PackOptions result;
    result.sources = {source};
    result.out = folder.path("out.tar");
    result.threads = 3;
    result.keep = result.overwrite = true;
    return result;
  }
  // Key and label of each record.
  using Labels = std::vector<std::pair<std::string, std::string>>;
  Labels labels() {
    const PackedFiles set({folder.path("out.tar")});
    Labels all;
    for (std::size_t i = 0; i < set.size(); ++i) {
      all.emplace_back(set.key(i).substr((folder.path("out.tar:")).size()),
                       set.classes()[static_cast<std::size_t>(set.label(i))]);
    }
    return all;
  }
  Record record(std::size_t i) { return PackedFiles({folder.path("out.tar")}).read(i, scratch); }
  void refused(const PackOptions& o, const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { pack(o); }, parts);
  }
  std::string gzipped(const std::string& path) {
    EXPECT_EQ(std::system(("gzip -kf '" + path + "'").c_str()), 0);
    return path + ".gz";
  }

  Scratch folder;
  std::string tar = folder.path("source.tar");
  Bytes scratch;
  const Members members = {{"./set/train/dog/1.jpg", image("gray.jpg")},
                           {"./set/train/cat/2.jpg", image("color420.jpg")},
                           {"./set/README", as_bytes("pictures")},
                           {"./set/test/cat/3.png", image("pattern.png")}};
};

TEST_F(PackSources, ATarCompressedOrNot) {
  write_bytes(tar, make_tar(members));
  Bytes plain;
  for (const std::string& source : {tar, gzipped(tar)}) {
    EXPECT_EQ(pack(options(source)).records, 3u);
    EXPECT_EQ(labels(), (Labels{{"set/train/dog/1.jpg", "dog"},
                                {"set/train/cat/2.jpg", "cat"},
                                {"set/test/cat/3.png", "cat"}}));
    for (std::size_t i = 0; i < 3; ++i) {
      const Record r = record(i);
      EXPECT_EQ(Bytes(r.bytes.begin(), r.bytes.end()), members[i < 2 ? i : 3].second);
    }
    PackOptions below = options(source);
    below.below = "set/train/";
    EXPECT_EQ(pack(below).records, 2u);
    EXPECT_EQ(labels(), (Labels{{"dog/1.jpg", "dog"}, {"cat/2.jpg", "cat"}}));
    below.below = "set/valid";
    refused(below, {source, "below set/valid"});
    PackOptions shuffled = options(source);
    shuffled.shuffle = 1;
    if (source == tar) {
      EXPECT_EQ(pack(shuffled).records, 3u);
    } else {
      refused(shuffled, {source, "compressed", "unpack"});
    }
  }
}

// What an index says about itself is TOML.
TEST_F(PackSources, ASourceWithQuotesInItsName) {
  const std::string source = folder.path("my \"data\"");
  fs::create_directories(source + "/cat");
  fs::copy_file(fixture("gray.jpg"), source + "/cat/1.jpg");
  const PackOptions o = options(source);
  pack(o);
  EXPECT_EQ(inspect_packed(o.out).about.find("source = \"my \\\"data\\\"\"\n"), 0u);
}

TEST_F(PackSources, ATarOfTars) {
  write_bytes(tar, make_tar({{"n01.tar", make_tar({{"n01_1.JPEG", image("gray.jpg")},
                                                   {"n01_2.JPEG", image("color420.jpg")}})},
                             {"n02.tar", make_tar({{"n02_1.JPEG", image("color444.jpg")}})}}));
  for (const std::string& source : {tar, gzipped(tar)}) {
    pack(options(source));
    EXPECT_EQ(
        labels(),
        (Labels{{"n01/n01_1.jpg", "n01"}, {"n01/n01_2.jpg", "n01"}, {"n02/n02_1.jpg", "n02"}}));
    const Record last = record(2);
    EXPECT_EQ(Bytes(last.bytes.begin(), last.bytes.end()), image("color444.jpg"));
  }
}

TEST_F(PackSources, OfASampleInATarTheImageThatBearsItsName) {
  write_bytes(tar, make_tar({{"cat/1.depth.png", image("gray.png")},
                             {"cat/1.jpg", image("gray.jpg")},
                             {"cat/1.seg.png", image("gray.png")},
                             {"cat/cat.7.jpg", image("color420.jpg")},
                             {"cat/cat.8.jpg", image("color444.jpg")}}));
  const PackResult result = pack(options(tar));
  EXPECT_EQ(result.records, 3u);
  EXPECT_EQ(result.others, 2u);
  EXPECT_EQ(labels(),
            (Labels{{"cat/1.jpg", "cat"}, {"cat/cat_7.jpg", "cat"}, {"cat/cat_8.jpg", "cat"}}));
}

TEST_F(PackSources, WhatWasPackedIsPackedAgain) {
  write_bytes(tar, make_tar(members));
  pack(options(tar));
  const Labels before = labels();
  fs::rename(folder.path("out.tar"), folder.path("first.tar"));
  PackOptions again = options(folder.path("first.tar"));
  again.limit = 2;
  EXPECT_EQ(pack(again).records, 2u);
  EXPECT_EQ(labels(), Labels(before.begin(), before.begin() + 2));
  EXPECT_EQ(PackedFiles({again.out}).classes(), (std::vector<std::string>{"cat", "dog"}));
}

// Two samples of one name side by side have a label each.
TEST_F(PackSources, AKeyTwiceInARowIsTwoSamples) {
  write_bytes(tar, make_tar({{"0.png", image("gray.png")},
                             {"0.cls", as_bytes("0")},
                             {"0.png", image("pattern.png")},
                             {"0.cls", as_bytes("1")},
                             {"1.cls", as_bytes("1")},
                             {"1.png", image("gray.png")},
                             {"1.cls", as_bytes("0")},
                             {"1.png", image("pattern.png")}}));
  EXPECT_EQ(pack(options(tar)).records, 4u);
  EXPECT_EQ(labels(), (Labels{{"0.png", "0"}, {"0-2.png", "1"}, {"1.png", "1"}, {"1-2.png", "0"}}));
  expect_error<UsageError>([&] { index_tar(tar); }, {tar, "two members named 0.png"});
}

TEST_F(PackSources, LinksInATarAreReported) {
  const std::string at = "cd '" + folder.path() + "' && ";
  fs::create_directories(folder.path("cat"));
  fs::copy_file(fixture("gray.jpg"), folder.path("cat/1.jpg"));
  ASSERT_EQ(std::system((at + "ln cat/1.jpg cat/2.jpg && ln -s 1.jpg cat/3.jpg && tar -cf '" + tar +
                         "' --sort=name cat")
                            .c_str()),
            0);
  const PackResult result = pack(options(tar));
  EXPECT_EQ(result.records, 1u);
  EXPECT_EQ(result.bad, 2u);
  const IndexTarResult indexed = index_tar(tar);
  EXPECT_EQ(indexed.records, 1u);
  EXPECT_EQ(indexed.links, 2u);
  EXPECT_EQ(indexed.others, 2u);
}

TEST_F(PackSources, DamagedTars) {
  const Bytes good = make_tar(members);
  write_bytes(tar, std::span(good).first(good.size() - 2000));
  refused(options(tar), {tar, "truncated"});
  write_bytes(tar, good);
  const std::string packed = gzipped(tar);
  fs::resize_file(packed, fs::file_size(packed) - 20);
  refused(options(packed), {packed, "truncated"});
  write_bytes(tar, Bytes(1024));
  refused(options(tar), {tar, "no picture"});
  write_bytes(tar, {});
  refused(options(tar), {tar, "none of what can be packed"});
  write_bytes(tar, make_tar({{"1.jpg", image("gray.jpg")}}));
  refused(options(tar), {"1.jpg", "no class"});
  // A key that is there twice is no reason to lose an image.
  write_bytes(tar, make_tar({{"a/1.jpg", image("gray.jpg")}, {"a/1.jpg", image("color420.jpg")}}));
  EXPECT_EQ(pack(options(tar)).renamed, 1u);
  EXPECT_EQ(labels(), (Labels{{"a/1.jpg", "a"}, {"a/1-2.jpg", "a"}}));
}

// As the validation images of ImageNet come.
TEST_F(PackSources, AListOfLabels) {
  fs::create_directories(folder.path("flat"));
  fs::copy_file(fixture("gray.jpg"), folder.path("flat/one two.jpg"));
  fs::copy_file(fixture("color420.jpg"), folder.path("flat/b.jpg"));
  write_bytes(tar,
              make_tar({{"val/one two.jpg", image("gray.jpg")}, {"val/b.jpg", image("rgb.jpg")}}));
  std::ofstream(folder.path("list")) << "b.jpg\tsea lion\r\none two.jpg\tcat\n\nunused.jpg\teel\n";
  for (const std::string& source : {folder.path("flat"), tar}) {
    PackOptions o = options(source);
    if (source != tar) refused(o, {"no class"});
    o.labels = folder.path("list");
    const PackResult result = pack(o);
    EXPECT_EQ(result.classes, 3u);
    EXPECT_EQ(result.unused_lines, 1u);
    const Labels found = labels();
    EXPECT_EQ(found[0].second, source == tar ? "cat" : "sea lion");
    EXPECT_EQ(found[1].second, source == tar ? "sea lion" : "cat");
    o.classes = folder.path("names");
    std::ofstream(folder.path("names")) << "cat\nsea lion\n";
    EXPECT_EQ(pack(o).classes, 2u);
    std::ofstream(folder.path("names")) << "cat\n";
    refused(o, {"b.jpg", "'sea lion'"});
  }
  PackOptions o = options(tar);
  o.labels = folder.path("list");
  std::ofstream(folder.path("list")) << "b.jpg sea\n";
  refused(o, {"one two.jpg", "not listed", folder.path("list")});
  std::ofstream(folder.path("list")) << "b.jpg\n";
  refused(o, {folder.path("list"), "line 1"});
  std::ofstream(folder.path("list")) << "b.jpg sea\nb.jpg sky\n";
  refused(o, {folder.path("list"), "line 2", "b.jpg"});
  std::ofstream(folder.path("list")) << "\n";
  refused(o, {folder.path("list"), "no line"});
}

// A line is for one image, whatever others are called.
TEST_F(PackSources, AListWithPathsAndWithoutThem) {
  write_bytes(tar, make_tar({{"1.jpg", image("gray.jpg")},
                             {"b/1.jpg", image("rgb.jpg")},
                             {"b/2.jpg", image("color420.jpg")}}));
  PackOptions o = options(tar);
  o.labels = folder.path("list");
  // As an editor on Windows leaves it, with spaces and tabs at the end of lines.
  std::ofstream(o.labels) << "\xef\xbb\xbf"
                          << "1.jpg cat\r\nb/1.jpg dog \r\nb/2.jpg\tdog\t\r\n  \r\nc/1.jpg eel\n";
  EXPECT_EQ(pack(o).unused_lines, 1u);
  EXPECT_EQ(labels(), (Labels{{"1.jpg", "cat"}, {"b/1.jpg", "dog"}, {"b/2.jpg", "dog"}}));
  EXPECT_EQ(PackedFiles({o.out}).classes(), (std::vector<std::string>{"cat", "dog", "eel"}));
  // Another image's line is none, though its name ends alike.
  std::ofstream(o.labels) << "1.jpg cat\nb/2.jpg dog\n";
  refused(o, {tar + ": b/1.jpg is not listed in " + o.labels});
  std::ofstream(o.labels) << "1.jpg cat\n2.jpg dog\n";
  refused(o, {o.labels + ": the line of '1.jpg' would be for 1.jpg and for b/1.jpg", "paths"});
}

TEST_F(PackSources, LabelsInAnotherFolderThanTheirImage) {
  write_bytes(tar, make_tar({{"val/images/b.jpg", image("rgb.jpg")},
                             {"val/labels/b.cls", as_bytes("3")},
                             {"test/labels/c.cls", as_bytes("3")}}));
  PackOptions o = options(tar);
  refused(o, {tar, "labels without an image", "val/labels/b.cls (2 in all)", "--sort=name"});
  // Unless something else says them.
  o.labels = folder.path("list");
  std::ofstream(o.labels) << "val/images/b.jpg\tcat\n";
  EXPECT_EQ(pack(o).others, 2u);
  o.labels = "";
  o.below = "val/images";
  refused(o, {"b.jpg has no class"});
}

// Many labels for an image would become one class of an odd name.
TEST_F(PackSources, AListWithSeveralClassesForAnImageIsRefused) {
  fs::create_directories(folder.path("flat"));
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg"})
    fs::copy_file(fixture("gray.jpg"), folder.path("flat") + "/" + name);
  PackOptions o = options(folder.path("flat"));
  o.labels = folder.path("list");
  std::ofstream(o.labels) << "a.jpg\tdog\nb.jpg\tcat, dog\nc.jpg\tcat\n";
  refused(o, {o.labels + ": b.jpg has several classes, 'cat, dog'", "with --label-table"});
  std::ofstream(o.labels) << "a.jpg\tdog,cat\nb.jpg\tcat\nc.jpg\tcat\n";
  std::ofstream(folder.path("names")) << "cat\ndog\n";
  o.classes = folder.path("names");
  refused(o, {"a.jpg has several classes"});
  // Names with commas are no lists.
  o.classes = "";
  std::ofstream(o.labels) << "a.jpg\ttench, Tinca tinca\nb.jpg\ttench\nc.jpg\tcat\n";
  EXPECT_EQ(pack(o).classes, 3u);
  std::ofstream(folder.path("names")) << "cat\ndog\ncat,dog\n";
  o.classes = folder.path("names");
  std::ofstream(o.labels) << "a.jpg\tcat,dog\nb.jpg\tcat\nc.jpg\tdog\n";
  EXPECT_EQ(pack(o).classes, 3u);
}

TEST_F(PackSources, Idx) {
  PackOptions o = options(test::source_folder() + "/data/mnist/t10k-images-idx3-ubyte.gz");
  o.keep = false;  // pixels need no libvips as long as nothing is resized
  o.limit = 50;
  EXPECT_EQ(pack(o).records, 50u);
  const Labels found = labels();
  EXPECT_EQ(found[0], (std::pair<std::string, std::string>("7/00000000.png", "7")));
  EXPECT_EQ(found[49].first, found[49].second + "/00000049.png");
  const auto set =
      open_idx(o.sources[0], test::source_folder() + "/data/mnist/t10k-labels-idx1-ubyte.gz");
  Bytes other;
  for (std::size_t i = 0; i < 50; ++i) {
    Image stored;
    decode_image(record(i).bytes, 0, stored);
    const auto pixels = set->read(i, other).bytes;
    ASSERT_EQ(stored.channels, 1);
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.end(), stored.pixels.begin(), stored.pixels.end(),
                           [](std::byte a, std::uint8_t b) { return a == std::byte{b}; }));
  }
  refused(options(test::source_folder() + "/data/mnist/t10k-labels-idx1-ubyte.gz"),
          {"holds labels"});
  fs::copy_file(o.sources[0], folder.path("alone.gz"));
  refused(options(folder.path("alone.gz")), {"--labels"});
  o.sources = {folder.path("alone.gz")};
  o.labels = test::source_folder() + "/data/mnist/t10k-labels-idx1-ubyte.gz";
  EXPECT_EQ(pack(o).records, 50u);
}

TEST_F(PackSources, Cifar) {
  std::vector<std::string> files;
  for (int file = 0; file < 2; ++file) {
    Bytes bytes;
    for (int i = 0; i < 5; ++i) {
      bytes.push_back(static_cast<std::byte>(2 * i));
      for (int p = 0; p < 3072; ++p) bytes.push_back(static_cast<std::byte>(p / 16 + 10 * file));
    }
    files.push_back(folder.path("data_batch_" + std::to_string(file) + ".bin"));
    write_bytes(files.back(), bytes);
  }
  std::ofstream(folder.path("batches.meta.txt")) << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  PackOptions o = options(files[0]);
  o.sources.push_back(files[1]);
  EXPECT_EQ(pack(o).records, 10u);
  EXPECT_EQ(labels()[6], (std::pair<std::string, std::string>("c/00000006.png", "c")));
  Image stored;
  decode_image(record(6).bytes, 0, stored);
  EXPECT_EQ(stored.channels, 3);
  // Row 1, column 2 of the second file: p is 34, 34 + 1024, 34 + 2048.
  const std::size_t at = (32 + 2) * 3;
  EXPECT_EQ(stored.pixels[at], 34 / 16 + 10);
  EXPECT_EQ(stored.pixels[at + 1], (34 + 1024) / 16 + 10);
  EXPECT_EQ(stored.pixels[at + 2], (34 + 2048) / 16 + 10);
}

// All that is odd about pictures: nothing is lost, and what is packed decodes.
TEST_F(PackSources, OddImages) {
  const std::string archive = environment("CONVOY_DATA") + "/odd_jpeg.tar.gz";
  if (!fs::exists(archive)) LEAVE_OUT("set CONVOY_DATA to a folder with odd_jpeg.tar.gz");
  for (const bool keep : {true, false}) {
    PackOptions o = options(archive);
    o.keep = keep;
    if (!keep) NEEDS_VIPS();
    const PackResult result = pack(o);
    EXPECT_EQ(result.records + result.bad + result.others, 244u + 1);  // and the list of them
    EXPECT_GT(result.records, 80u);
    std::size_t images = 0;
    std::ifstream report(o.out + ".report.tsv");
    for (std::string line; std::getline(report, line);) images += line.starts_with("bad\t") ? 1 : 0;
    EXPECT_EQ(images, result.bad);
    EXPECT_TRUE(verify_packed(o.out, {true, 2, {}}).problems.empty());
  }
}

TEST_F(PackSources, AFileThatIsGoneSinceTheWalkIsABadImage) {
  fs::create_directories(folder.path("set/c"));
  for (const char* name : {"1.png", "2.png", "3.png"})
    write_bytes(folder.path("set/c/") + name, image("gray.png"));
  const PackOptions o = options(folder.path("set"));
  const std::unique_ptr<PackSource> source = open_source(o);
  fs::remove(folder.path("set/c/2.png"));
  Converter converter(o, nullptr);
  const std::vector<std::size_t> order = {0, 1, 2};
  PackPipeline pipeline(*source, converter, order, 0, 1);
  EXPECT_EQ(pipeline.take().problem, "");
  EXPECT_NE(pipeline.take().problem.find("No such file"), std::string::npos);
  EXPECT_EQ(pipeline.take().problem, "");
}

// As of image_folder: each picture once.
TEST_F(PackSources, LinksToThemselvesAndToWhatTheyAreInEndNoWalk) {
  fs::create_directories(folder.path("set/c"));
  fs::create_directories(folder.path("elsewhere"));
  write_bytes(folder.path("set/c/1.png"), image("gray.png"));
  write_bytes(folder.path("elsewhere/2.png"), image("gray.png"));
  fs::create_symlink("self.png", folder.path("set/c/self.png"));
  fs::create_symlink("self.txt", folder.path("set/c/self.txt"));
  fs::create_directory_symlink(folder.path("set/c"), folder.path("set/c/again"));
  fs::create_directory_symlink(folder.path("set"), folder.path("set/c/up"));
  fs::create_directory_symlink(folder.path("elsewhere"), folder.path("set/d"));
  const PackResult result = pack(options(folder.path("set")));
  EXPECT_EQ(labels(), (Labels{{"c/1.png", "c"}, {"d/2.png", "d"}}));
  EXPECT_EQ(result.bad, 1u);  // self.png, which somebody may miss
  EXPECT_EQ(result.others, 1u);
}

// Of whose images one takes more memory than there is.
class HungrySource final : public PackSource {
 public:
  HungrySource() { images_ = {{"1.png"}, {"2.png"}, {"3.png"}}; }
  bool any_order() const override { return true; }
  bool pixels() const override { return false; }
  Record read(std::size_t i, std::vector<std::byte>& scratch) override {
    if (i == 1) throw std::bad_alloc();
    scratch = image("gray.png");
    return {scratch, Encoding::jpeg, {}, 0};
  }
};

TEST_F(PackSources, AnImageWithoutMemoryForItIsABadOne) {
  HungrySource source;
  const PackOptions kept = options("");
  Converter converter(kept, nullptr);
  const std::vector<std::size_t> order = {0, 1, 2};
  PackPipeline pipeline(source, converter, order, 0, 1);
  EXPECT_EQ(pipeline.take().problem, "");
  EXPECT_EQ(pipeline.take().problem, "there is no memory for it on this host");
  EXPECT_EQ(pipeline.take().problem, "");
}

}  // namespace
}  // namespace convoy::data
