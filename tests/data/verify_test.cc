// Whether packed files are what they were.
#include "convoy/data/packed.h"
#include "tests/data/packed_fixture.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

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
