// What the tests of pack() share.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "convoy/data/pack.h"
#include "convoy/data/packed.h"
#include "data/pack/vips.h"
#include "tests/base/leave_out.h"
#include "tests/data/packed_support.h"

namespace convoy::data {

// Null where it is not installed.
inline std::shared_ptr<const Vips> vips() {
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
  if (vips() == nullptr) LEAVE_OUT("install libvips-tools (tools/setup.sh does)")

inline Bytes image(const std::string& name) { return read_file(fixture(name)); }

class Pack : public testing::Test {
 protected:
  void add(const std::string& name, const Bytes& bytes) {
    std::filesystem::create_directories(std::filesystem::path(source.path(name)).parent_path());
    write_bytes(source.path(name), bytes);
  }
  PackOptions options(const std::string& name = "out.tar") {
    PackOptions result;
    result.sources = {source.path()};
    result.out = folder.path(name);
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
    EXPECT_FALSE(std::filesystem::exists(tar + ".partial"));
    EXPECT_FALSE(std::filesystem::exists(tar + ".partial.journal"));
    EXPECT_TRUE(verify_packed(tar, {true, 2, {}}).problems.empty());
  }

  Scratch source, folder;
};

}  // namespace convoy::data
