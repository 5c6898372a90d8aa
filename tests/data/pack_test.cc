#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>

#include "convoy/data/loader.h"
#include "convoy/data/pack.h"
#include "convoy/data/packed.h"
#include "data/pack/journal.h"
#include "data/pack/vips.h"
#include "tests/base/scratch.h"
#include "tests/data/packed_support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const Vips> vips() {
  static const auto library = [] {
    try {
      return Vips::load();
    } catch (const UsageError&) {
      return std::shared_ptr<const Vips>();
    }
  }();
  return library;
}

#define NEEDS_VIPS() \
  if (vips() == nullptr) GTEST_SKIP() << "install libvips-tools (tools/setup.sh does)"

// An Exif segment that says how to turn the picture, behind the first two bytes of a JPEG.
Bytes turned(const Bytes& jpeg, int orientation) {
  const Bytes exif = to_bytes({0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0,
                               0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0,
                               0, 0, 0, 0});
  Bytes result(jpeg.begin(), jpeg.begin() + 2);
  result.insert(result.end(), exif.begin(), exif.end());
  result.insert(result.end(), jpeg.begin() + 2, jpeg.end());
  return result;
}

Bytes image(const std::string& name) { return read_file(fixture(name)); }

Image decoded(std::span<const std::byte> bytes, int channels = 0) {
  Image result;
  decode_image(bytes, channels, result);
  return result;
}

class Pack : public testing::Test {
 protected:
  void add(const std::string& name, const Bytes& bytes) {
    fs::create_directories(fs::path(source / name).parent_path());
    write_bytes(source / name, bytes);
  }
  PackOptions options(const std::string& name = "out.tar") {
    PackOptions result;
    result.sources = {source.path()};
    result.out = folder / name;
    result.threads = 2;
    return result;
  }
  std::map<std::string, Bytes> records(const std::string& tar) {
    const PackedFiles set({tar});
    std::map<std::string, Bytes> all;
    Bytes scratch;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const auto bytes = set.read(i, scratch).bytes;
      all[set.key(i).substr(tar.size() + 1)] = Bytes(bytes.begin(), bytes.end());
    }
    return all;
  }
  std::vector<std::string> report(const std::string& tar) {
    std::ifstream file(tar + ".report.tsv");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    EXPECT_EQ(lines.at(0), "what\tname\tdetail");
    lines.erase(lines.begin());
    return lines;
  }
  void expect_nothing_left(const std::string& tar) {
    EXPECT_FALSE(fs::exists(tar + ".partial"));
    EXPECT_FALSE(fs::exists(tar + ".partial.journal"));
    EXPECT_TRUE(verify_packed(tar, {true, 2, {}}).problems.empty());
  }

  Folder source, folder;
};

TEST_F(Pack, ImagesAreKeptAsTheyAre) {
  add("dog/b.JPEG", image("color420.jpg"));
  add("cat/deep/a.b.png", image("color16.png"));
  add("cat/cmyk.jpg", turned(image("cmyk.jpg"), 3));
  add("cat/notes.txt", as_bytes("no image"));
  add("cat/.hidden.jpg", image("gray.jpg"));
  PackOptions keep = options();
  keep.keep = true;
  const PackResult result = pack(keep);
  EXPECT_EQ(result.records, 3u);
  EXPECT_EQ(result.unchanged, 3u);
  EXPECT_EQ(result.classes, 2u);
  EXPECT_EQ(result.bytes, fs::file_size(keep.out));
  EXPECT_EQ(result.index, keep.out + ".index");
  const auto packed = records(keep.out);
  ASSERT_EQ(packed.size(), 3u);
  EXPECT_EQ(packed.at("cat/deep/a_b.png"), image("color16.png"));
  EXPECT_EQ(packed.at("cat/cmyk.jpg"), turned(image("cmyk.jpg"), 3));
  EXPECT_EQ(packed.at("dog/b.jpg"), image("color420.jpg"));
  EXPECT_TRUE(report(keep.out).empty());
  expect_nothing_left(keep.out);
  EXPECT_NE(inspect_packed(keep.out).about.find("images = \"as in the source\""),
            std::string::npos);
  // The tar alone is enough to make the index again, bit for bit.
  const Bytes index = read_file(keep.out + ".index");
  fs::remove(keep.out + ".index");
  index_tar(keep.out);
  EXPECT_EQ(read_file(keep.out + ".index"), index);
}

TEST_F(Pack, TheShortSideAndTheShape) {
  NEEDS_VIPS();
  add("a/large.jpg", image("large420.jpg"));  // 150 x 120
  add("a/small.jpg", image("color444.jpg"));  // 37 x 29
  add("a/gray.jpg", image("gray.jpg"));
  add("a/webp.webp", image("large_alpha.webp"));
  add("a/alpha.png", image("color_alpha.png"));
  add("a/cmyk.jpg", image("cmyk.jpg"));
  PackOptions o = options();
  o.short_side = 60;
  PackResult result = pack(o);
  EXPECT_EQ(result.records, 6u);
  EXPECT_EQ(result.unchanged, 3u);
  auto packed = records(o.out);
  const Image large = decoded(packed.at("a/large.jpg"));
  EXPECT_EQ(large.width, 75);
  EXPECT_EQ(large.height, 60);
  EXPECT_EQ(decoded(packed.at("a/webp.jpg")).width, 75);
  EXPECT_EQ(decoded(packed.at("a/webp.jpg")).channels, 3);
  EXPECT_EQ(packed.at("a/small.jpg"), image("color444.jpg"));
  EXPECT_EQ(packed.at("a/gray.jpg"), image("gray.jpg"));
  EXPECT_EQ(packed.at("a/alpha.png"), image("color_alpha.png"));
  // Four colors become three.
  EXPECT_NE(packed.at("a/cmyk.jpg"), image("cmyk.jpg"));
  EXPECT_LT(difference(decoded(packed.at("a/cmyk.jpg")).pixels,
                       decoded(image("cmyk.jpg")).pixels)
                .mean,
            6);
  // The same picture, however it was stored.
  Image half;
  half.pixels = decoded(packed.at("a/webp.jpg")).pixels;
  EXPECT_LT(difference(half.pixels, large.pixels).mean, 6);
  expect_nothing_left(o.out);

  o = options("smaller.tar");
  o.short_side = 16;
  result = pack(o);
  EXPECT_EQ(result.unchanged, 0u);
  packed = records(o.out);
  EXPECT_EQ(decoded(packed.at("a/small.jpg")).width, 20);  // 37 * 16 / 29
  EXPECT_EQ(decoded(packed.at("a/small.jpg")).height, 16);
  EXPECT_EQ(decoded(packed.at("a/gray.jpg")).channels, 1);
  EXPECT_EQ(decoded(packed.at("a/alpha.jpg")).channels, 3);
}

// What another good resizer makes of it.
TEST_F(Pack, DownsamplingIsAntialiased) {
  NEEDS_VIPS();
  Image original = decoded(image("large420.jpg"));
  Image small;
  vips()->shrink(original, 0.25, small);
  std::vector<std::uint8_t> expected;
  resize(original, {0, 0, original.width, original.height}, small.height, small.width, expected);
  EXPECT_LT(difference(small.pixels, expected).mean, 4);
}

TEST_F(Pack, QualityAndChroma) {
  NEEDS_VIPS();
  add("a/large.jpg", image("large420.jpg"));
  PackOptions o = options();
  o.short_side = 100;
  pack(o);
  const Bytes usual = records(o.out).at("a/large.jpg");
  EXPECT_NE(inspect_packed(o.out).about.find("quality = 90\nchroma = \"4:2:0\""),
            std::string::npos);
  o.overwrite = true;
  o.quality = 50;
  pack(o);
  const Bytes coarse = records(o.out).at("a/large.jpg");
  EXPECT_LT(coarse.size(), usual.size() * 3 / 4);
  o.quality = 90;
  o.chroma = Chroma::full;
  pack(o);
  EXPECT_GT(records(o.out).at("a/large.jpg").size(), usual.size());
  EXPECT_NE(inspect_packed(o.out).about.find("chroma = \"4:4:4\""), std::string::npos);
}

TEST_F(Pack, PicturesAreTurnedUpright) {
  NEEDS_VIPS();
  const Bytes upright = image("large420.jpg");
  for (int orientation = 1; orientation <= 8; ++orientation) {
    add("a/" + std::to_string(orientation) + ".jpg", turned(upright, orientation));
  }
  PackOptions o = options();
  EXPECT_EQ(pack(o).unchanged, 1u);
  const auto packed = records(o.out);
  const Image first = decoded(upright);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const Image picture = decoded(packed.at("a/" + std::to_string(orientation) + ".jpg"));
    const bool lies = orientation > 4;
    ASSERT_EQ(picture.width, lies ? first.height : first.width);
    ASSERT_EQ(picture.height, lies ? first.width : first.height);
    // The corner that has to be at the top left: the Exif standard's table.
    const bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    // Orientations 6 and 8 turn by a quarter: the corner comes from bottom left and top right.
    const int x = right ? first.width - 1 : 0;
    const int y = bottom ? first.height - 1 : 0;
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(picture.pixels[static_cast<std::size_t>(c)],
                  first.pixels[static_cast<std::size_t>((y * first.width + x) * 3 + c)], 24);
    }
  }
}

TEST_F(Pack, BadImagesAreReportedNotDropped) {
  Bytes torn = image("large420.jpg");
  torn.resize(torn.size() / 2);
  add("a/0_good.jpg", image("gray.jpg"));
  add("a/1_torn.jpg", torn);
  add("a/2_empty.png", {});
  add("a/3_text.jpg", as_bytes("<html>not found</html>"));
  add("a/4_gif.jpg", as_bytes("GIF89a......"));
  add("a/5_webp.webp", image("large_alpha.webp"));
  fs::create_symlink("nothing.jpg", source / "a/6_link.jpg");
  PackOptions o = options();
  o.keep = true;
  const PackResult result = pack(o);
  EXPECT_EQ(result.records, 1u);
  EXPECT_EQ(result.bad, 6u);
  const auto lines = report(o.out);
  ASSERT_EQ(lines.size(), 6u);
  const std::vector<std::vector<std::string>> parts = {
      {"bad\ta/1_torn.jpg\t", "JPEG"},       {"a/2_empty.png\t", "empty"},
      {"a/3_text.jpg\t", "neither a JPEG"},  {"a/4_gif.jpg\t", "neither a JPEG"},
      {"a/5_webp.webp\t", "can't be stored"}, {"a/6_link.jpg\t"}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const std::string& part : parts[i]) {
      EXPECT_NE(lines[i].find(part), std::string::npos) << lines[i];
    }
  }
  expect_nothing_left(o.out);
  // None at all is an error, and the report is there all the same.
  fs::remove(source / "a/0_good.jpg");
  o = options("none.tar");
  o.keep = true;
  expect_error<UsageError>([&] { pack(o); }, {"none of the 6 images", "none.tar.report.tsv"});
  EXPECT_EQ(report(o.out).size(), 6u);
  EXPECT_FALSE(fs::exists(o.out + ".partial"));
}

TEST_F(Pack, KeysThatAreTakenGetANumber) {
  add("a/1.jpg", image("color420.jpg"));
  add("a/1.png", image("pattern.png"));
  add("a/x.y.jpg", image("color422.jpg"));
  add("a/x_y.jpg", image("color444.jpg"));
  PackOptions o = options();
  o.keep = true;
  EXPECT_EQ(pack(o).renamed, 2u);
  const auto packed = records(o.out);
  EXPECT_EQ(packed.size(), 4u);
  EXPECT_EQ(packed.at("a/1-2.png"), image("pattern.png"));
  EXPECT_EQ(packed.at("a/x_y-2.jpg"), image("color444.jpg"));
  EXPECT_EQ(report(o.out), (std::vector<std::string>{"renamed\ta/1.png\ta/1-2",
                                                     "renamed\ta/x_y.jpg\ta/x_y-2"}));
}

// A few hundred images of all kinds, some of them bad.
class PackMany : public Pack {
 protected:
  PackMany() {
    const std::vector<std::string> kinds = {"color420.jpg", "gray.jpg", "pattern.png",
                                            "large420.jpg", "cmyk.jpg"};
    for (int i = 0; i < 200; ++i) {
      const std::string& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
      Bytes bytes = image(kind);
      if (i % 17 == 5) bytes.resize(bytes.size() / 2);
      add(std::string(i % 3 == 0 ? "cat/" : "dog/") + std::to_string(1000 + i) +
              fs::path(kind).extension().string(),
          bytes);
    }
  }
};

TEST_F(PackMany, TheSameBytesWhateverTheNumberOfThreads) {
  for (const bool keep : {true, false}) {
    if (!keep) NEEDS_VIPS();
    PackOptions o = options("one.tar");
    o.keep = keep;
    o.overwrite = true;
    o.short_side = 100;
    o.threads = 1;
    pack(o);
    const Bytes tar = read_file(o.out), index = read_file(o.out + ".index");
    const auto lines = report(o.out);
    o.threads = 5;
    o.out = folder / "five.tar";
    const PackResult result = pack(o);
    EXPECT_EQ(read_file(o.out), tar);
    EXPECT_EQ(read_file(o.out + ".index"), index);
    EXPECT_EQ(report(o.out), lines);
    EXPECT_EQ(result.records + result.bad, 200u);
    EXPECT_EQ(lines.size(), result.bad);
    EXPECT_GT(result.bad, 5u);
  }
}

TEST_F(PackMany, ALimitAndAnotherOrder) {
  PackOptions o = options();
  o.keep = true;
  o.limit = 30;
  PackResult result = pack(o);
  EXPECT_EQ(result.records + result.bad, 30u);
  EXPECT_EQ(result.classes, 2u);  // also those that the limit leaves empty
  EXPECT_EQ(inspect_packed(o.out).class_records[1], 0u);
  o.overwrite = true;
  o.shuffle = 7;
  result = pack(o);
  const PackedSummary summary = inspect_packed(o.out);
  EXPECT_GT(summary.class_records[0], 3u);
  EXPECT_GT(summary.class_records[1], 10u);
  const Bytes first = read_file(o.out);
  pack(o);
  EXPECT_EQ(read_file(o.out), first);
  o.shuffle = 8;
  pack(o);
  EXPECT_NE(read_file(o.out), first);
}

TEST_F(PackMany, AnInterruptedRunIsGoneOnWith) {
  PackOptions o = options("whole.tar");
  o.keep = true;
  pack(o);
  const Bytes whole = read_file(o.out);
  const auto lines = report(o.out);
  for (const std::size_t stop_at : {1u, 2u, 57u, 150u, 199u}) {
    SCOPED_TRACE(stop_at);
    PackOptions part = options("part.tar");
    part.keep = part.overwrite = true;
    struct Stop {};
    part.tell = [&](const PackProgress& p) {
      if (p.done == stop_at) throw Stop();
    };
    EXPECT_THROW(pack(part), Stop);
    EXPECT_TRUE(fs::exists(part.out + ".partial"));
    part.tell = {};
    const PackResult result = pack(part);
    // The last one is made again.
    EXPECT_GE(result.resumed + 3, stop_at);
    EXPECT_LT(result.resumed, stop_at);
    EXPECT_EQ(read_file(part.out), whole);
    EXPECT_EQ(report(part.out), lines);
    expect_nothing_left(part.out);
  }
}

TEST_F(PackMany, WhatAPowerCutLeavesIsNotTrusted) {
  PackOptions o = options("whole.tar");
  o.keep = true;
  pack(o);
  const Bytes whole = read_file(o.out);
  struct Stop {};
  const auto interrupted = [&](const std::function<void(const std::string& partial)>& damage) {
    PackOptions part = options("part.tar");
    part.keep = part.overwrite = true;
    part.tell = [](const PackProgress& p) {
      if (p.done == 150) throw Stop();
    };
    EXPECT_THROW(pack(part), Stop);
    damage(part.out + ".partial");
    part.tell = {};
    const PackResult result = pack(part);
    EXPECT_EQ(read_file(part.out), whole);
    return result.resumed;
  };
  const auto zero = [](const std::string& path, std::size_t at, std::size_t count) {
    Bytes bytes = read_file(path);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, std::byte{0});
    write_bytes(path, bytes);
  };
  const std::size_t untouched = interrupted([](const std::string&) {});
  EXPECT_GT(untouched, 130u);
  const std::size_t middle = interrupted([&](const std::string& partial) {
    zero(partial, fs::file_size(partial) / 2, 4096);
  });
  EXPECT_LT(middle, untouched);
  EXPECT_GT(middle, 20u);
  EXPECT_LT(interrupted([](const std::string& partial) {
              fs::resize_file(partial, fs::file_size(partial) / 3);
            }),
            middle);
  EXPECT_EQ(interrupted([](const std::string& partial) { fs::remove(partial); }), 0u);
  EXPECT_EQ(interrupted([&](const std::string& partial) { zero(partial, 0, 100); }), 0u);
  EXPECT_EQ(interrupted([](const std::string& partial) { fs::remove(partial + ".journal"); }), 0u);
  const std::size_t torn = interrupted([&](const std::string& partial) {
    const std::string journal = partial + ".journal";
    zero(journal, fs::file_size(journal) / 2, 10);
  });
  EXPECT_LT(torn, untouched);
  EXPECT_GT(torn, 20u);
}

TEST_F(PackMany, AKilledRunIsGoneOnWith) {
  PackOptions o = options("whole.tar");
  o.keep = true;
  pack(o);
  PackOptions part = options("part.tar");
  part.keep = true;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    part.threads = 1;
    part.tell = [](const PackProgress& p) {
      if (p.done == 120) raise(SIGKILL);
    };
    pack(part);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(fs::exists(part.out));
  EXPECT_TRUE(fs::exists(part.out + ".partial.journal"));
  pack(part);
  EXPECT_EQ(read_file(part.out), read_file(o.out));
  expect_nothing_left(part.out);
}

TEST_F(PackMany, AnotherPackingIsNotGoneOnWith) {
  struct Stop {};
  PackOptions o = options();
  o.keep = true;
  o.tell = [](const PackProgress& p) {
    if (p.done == 100) throw Stop();
  };
  EXPECT_THROW(pack(o), Stop);
  o.tell = {};
  o.limit = 150;
  expect_error<UsageError>([&] { pack(o); }, {o.out + ".partial.journal", "--overwrite"});
  o.limit = 0;
  add("cat/2000.jpg", image("gray.jpg"));
  expect_error<UsageError>([&] { pack(o); }, {"other sources", "--overwrite"});
  o.overwrite = true;
  EXPECT_EQ(pack(o).resumed, 0u);
  o.overwrite = false;
  expect_error<UsageError>([&] { pack(o); }, {o.out, "exists", "--overwrite"});
  // Two at a time.
  PackOptions twice = options("twice.tar");
  const Journal held(twice.out + ".partial.journal", "me", false);
  expect_error<UsageError>([&] { pack(twice); }, {"another convoy pack"});
}

TEST_F(PackMany, AFullDisk) {
  PackOptions o = options();
  o.keep = true;
  {
    const test::FileSizeLimit limit(100'000);
    expect_error<Failure>([&] { pack(o); }, {"cannot write " + o.out + ".partial"});
  }
  EXPECT_FALSE(fs::exists(o.out));
  pack(o);
  expect_nothing_left(o.out);
  const test::SmallDisk disk(folder / "disk", 200'000);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << disk.why_not();
  o.out = folder / "disk/out.tar";
  expect_error<Failure>([&] { pack(o); }, {o.out, "No space left", "make room"});
  EXPECT_FALSE(fs::exists(o.out));
}

TEST_F(Pack, WrongOptions) {
  add("a/1.jpg", image("gray.jpg"));
  const auto refused = [&](const std::function<void(PackOptions&)>& change,
                           const std::vector<std::string>& parts) {
    PackOptions o = options();
    o.keep = true;
    change(o);
    expect_error<UsageError>([&] { pack(o); }, parts);
  };
  refused([](auto& o) { o.out = ""; }, {"name the tar"});
  refused([&](auto& o) { o.out = folder.path(); }, {"is a folder"});
  refused([](auto& o) { o.quality = 0; }, {"quality of 0"});
  refused([](auto& o) { o.short_side = -1; }, {"short side of -1"});
  refused([](auto& o) { o.threads = 0; }, {"0 threads"});
  refused([](auto& o) { o.sources = {}; }, {"nothing to pack"});
  refused([&](auto& o) { o.sources = {folder / "nothing"}; }, {"no such file"});
  refused([&](auto& o) { o.sources = {folder.path()}; }, {folder.path(), "no picture"});
  refused([](auto& o) { o.below = "a"; }, {"--below is for a tar"});
  refused([](auto& o) { o.sources.push_back(o.sources[0]); }, {"several sources"});
  refused([](auto& o) { o.sources = {fixture("gray.jpg")}; }, {"gray.jpg", "none of what"});
}

}  // namespace
}  // namespace convoy::data
