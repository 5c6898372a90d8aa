// Pictures from the wild that other decoders stumble over; not kept here because of their size.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "convoy/data/loader.h"
#include "data/decode/decode.h"
#include "tests/base/leave_out.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

TEST(OddImages, AreDecodedOrRefused) {
  const std::string archive = environment("CONVOY_DATA") + "/odd_jpeg.tar.gz";
  if (!fs::exists(archive)) LEAVE_OUT("set CONVOY_DATA to a folder with odd_jpeg.tar.gz");
  Scratch folder;
  const std::string unpack = "tar -xzf '" + archive + "' -C '" + folder.path() + "'";
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  std::size_t decoded = 0;
  std::map<std::string, std::size_t> refused;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const Bytes bytes = read_file(entry.path().string());
    if (!is_jpeg(bytes) && !is_png(bytes)) continue;
    SCOPED_TRACE(entry.path().string());
    try {
      Image image;
      decode_image(bytes, 0, image);
      ++decoded;
      // What is sound is so as a part of it, too.
      TransformOptions options;
      options.crop = Crop::random_resized;
      options.height = options.width = 64;
      options.channels = 3;
      Transformer transformer(options, shape_of({bytes, Encoding::jpeg, {}, 0}));
      std::vector<float> out(transformer.shape().elements());
      RandomStream random(1);
      transformer.apply({bytes, Encoding::jpeg, {}, 0}, random, Layout::planar, out.data());
    } catch (const UsageError& error) {
      ++refused[error.what()];
      if (!environment("CONVOY_VERBOSE").empty()) {
        std::printf("%s: %s\n", entry.path().filename().c_str(), error.what());
      }
    }
  }
  EXPECT_GT(decoded, 80u);
  EXPECT_GT(refused.size(), 3u);
}

}  // namespace
}  // namespace convoy::data
