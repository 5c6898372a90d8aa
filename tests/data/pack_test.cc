// What becomes of images when they are packed.
#include "convoy/data/transform.h"
#include "tests/data/pack_support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

Image decoded(std::span<const std::byte> bytes, int channels = 0) {
  Image result;
  decode_image(bytes, channels, result);
  return result;
}

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
  EXPECT_LT(
      difference(decoded(packed.at("a/cmyk.jpg")).pixels, decoded(image("cmyk.jpg")).pixels).mean,
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
    const bool bottom =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
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
  fs::create_symlink("nothing.jpg", source.path("a/6_link.jpg"));
  PackOptions o = options();
  o.keep = true;
  const PackResult result = pack(o);
  EXPECT_EQ(result.records, 1u);
  EXPECT_EQ(result.bad, 6u);
  const auto lines = report(o.out);
  ASSERT_EQ(lines.size(), 6u);
  const std::vector<std::vector<std::string>> parts = {
      {"bad\ta/1_torn.jpg\t", "JPEG"},        {"a/2_empty.png\t", "empty"},
      {"a/3_text.jpg\t", "neither a JPEG"},   {"a/4_gif.jpg\t", "neither a JPEG"},
      {"a/5_webp.webp\t", "can't be stored"}, {"a/6_link.jpg\t"}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const std::string& part : parts[i]) {
      EXPECT_NE(lines[i].find(part), std::string::npos) << lines[i];
    }
  }
  expect_nothing_left(o.out);
  // None at all is an error, and the report is there all the same.
  fs::remove(source.path("a/0_good.jpg"));
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
  EXPECT_EQ(report(o.out),
            (std::vector<std::string>{"renamed\ta/1.png\ta/1-2", "renamed\ta/x_y.jpg\ta/x_y-2"}));
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
  refused([&](auto& o) { o.sources = {folder.path("nothing")}; }, {"no such file"});
  refused([&](auto& o) { o.sources = {folder.path()}; }, {folder.path(), "no picture"});
  refused([](auto& o) { o.below = "a"; }, {"--below is for a tar"});
  refused([](auto& o) { o.sources.push_back(o.sources[0]); }, {"several sources"});
  refused([](auto& o) { o.sources = {fixture("gray.jpg")}; }, {"gray.jpg", "none of what"});
}

}  // namespace
}  // namespace convoy::data
