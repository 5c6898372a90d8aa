// A tar of a few images, for tests of what is packed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "data/packed/index.h"
#include "tests/data/packed_support.h"

namespace convoy::data {

// Six images in two classes, with labels that folders say.
class Packed : public testing::Test {
 protected:
  Packed() {
    int i = 0;
    for (const char* name : {"color420.jpg", "gray.jpg", "pattern.png"}) {
      images.push_back(read_file(fixture(name)));
      const std::string number =
          std::to_string(i++) + std::filesystem::path(name).extension().string();
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

  Scratch folder;
  std::string tar = folder.path("a.tar");
  std::vector<Bytes> images;
  Members members;
  Bytes scratch;
};

}  // namespace convoy::data
