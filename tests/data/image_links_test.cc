// Image folders that are put together by links, and what is left out of them.
#include "convoy/data/remarks.h"
#include "tests/data/support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

class ImageLinks : public testing::Test {
 protected:
  void add(const std::string& to, const std::string& from) {
    fs::create_directories(fs::path(folder.path(to)).parent_path());
    fs::copy_file(fixture(from), folder.path(to));
  }

  Scratch folder;
};

std::vector<std::string> remarks_of(const Dataset& set) {
  return dynamic_cast<const Remarks&>(set).remarks();
}

// Data is often put together from several disks.
TEST_F(ImageLinks, LinksAreFollowedAtAnyDepth) {
  Scratch elsewhere;
  fs::create_directories(elsewhere.path("deep"));
  fs::copy_file(fixture("gray.jpg"), elsewhere.path("deep/z.jpg"));
  add("cat/a.jpg", "gray.jpg");
  add("dog/b.jpg", "gray.jpg");
  fs::create_directory_symlink(elsewhere.path(), folder.path("cat/more"));
  fs::create_directory_symlink(elsewhere.path("deep"), folder.path("fox"));
  fs::create_symlink(elsewhere.path("deep/z.jpg"), folder.path("dog/c.jpg"));
  // To where it is, and to what is around it.
  fs::create_directory_symlink(folder.path("dog"), folder.path("dog/again"));
  fs::create_directory_symlink(elsewhere.path(), elsewhere.path("deep/up"));
  const auto set = open_image_folder(folder.path());
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"cat", "dog", "fox"}));
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < set->size(); ++i)
    keys.push_back(set->key(i).substr(folder.path().size() + 1));
  EXPECT_EQ(keys, (std::vector<std::string>{"cat/a.jpg", "cat/more/deep/z.jpg", "dog/b.jpg",
                                            "dog/c.jpg", "fox/z.jpg"}));
  EXPECT_EQ(remarks_of(*set), std::vector<std::string>());
}

TEST_F(ImageLinks, WhatIsLeftOutIsSaid) {
  for (const char* name : {"cat/a.jpg", "cat/b.webp", "dog/a.jpg", "dog/b.jfif", "dog/notes.txt"})
    add(name, "gray.jpg");
  fs::create_symlink(folder.path("nothing"), folder.path("dog/more"));
  EXPECT_EQ(
      remarks_of(*open_image_folder(folder.path())),
      (std::vector<std::string>{
          folder.path() + ": 2 pictures that are no .jpg, .jpeg or .png files are left out, " +
              folder.path("cat/b.webp") + " first",
          folder.path() + ": 1 link that leads nowhere is left out, " + folder.path("dog/more")}));
}

TEST_F(ImageLinks, ALinkThatLeadsNowhereIsABadRecordOrAClassThatIsMissed) {
  add("cat/a.jpg", "gray.jpg");
  fs::create_symlink(folder.path("nothing.jpg"), folder.path("cat/b.jpg"));
  run_ranks(3, [&](Peers& peers) {
    const auto set = open_image_folder(folder.path(), peers);
    ASSERT_EQ(set->size(), 2u);
    EXPECT_EQ(set->key(1), folder.path("cat/b.jpg"));
    Bytes bytes;
    EXPECT_EQ(set->read(0, bytes).label, 0);
    expect_error<UsageError>([&] { set->read(1, bytes); }, {"a link that leads nowhere"});
  });
  fs::create_symlink("/nothing/dogs", folder.path("dog"));
  expect_error<UsageError>([&] { open_image_folder(folder.path()); },
                           {folder.path("dog") + " is a link to /nothing/dogs", "mounted"});
}

}  // namespace
}  // namespace convoy::data
