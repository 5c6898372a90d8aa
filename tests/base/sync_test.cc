// What is synced before a name counts, and in which order: a power cut must not take away what has
// been told to be there.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "tests/base/scratch.h"

namespace {

namespace fs = std::filesystem;

std::vector<std::string>& synced() {
  static std::vector<std::string> paths;
  return paths;
}

void note(int file) {
  synced().push_back(fs::read_symlink("/proc/self/fd/" + std::to_string(file)).string());
}

}  // namespace

// In the place of the C library's.
extern "C" int fsync(int file) {
  note(file);
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace {

using convoy::AtomicFile;
using convoy::AtomicFolder;
using convoy::test::Scratch;

TEST(Synced, AFileThenTheFolderThatHasItsName) {
  const Scratch scratch;
  AtomicFile file(scratch.path("kept"));
  file.write("text");
  synced().clear();
  file.commit();
  ASSERT_EQ(synced().size(), 2u);
  EXPECT_EQ(fs::path(synced()[0]).parent_path(), fs::canonical(scratch.path()));
  EXPECT_EQ(synced()[1], fs::canonical(scratch.path()));
}

TEST(Synced, AllThatIsInAFolderThenTheFolderThatHasItsName) {
  const Scratch scratch;
  AtomicFolder folder(scratch.path("kept"));
  fs::create_directory(folder.partial() + "/inner");
  for (const char* name : {"/one", "/inner/two"})
    convoy::test::spill(folder.partial() + name, "text");
  const fs::path partial = fs::canonical(folder.partial());
  synced().clear();
  folder.commit();
  const std::vector<std::string>& paths = synced();
  for (const fs::path& path :
       {partial / "one", partial / "inner" / "two", partial / "inner", partial})
    EXPECT_NE(std::find(paths.begin(), paths.end(), path.string()), paths.end()) << path;
  ASSERT_FALSE(paths.empty());
  EXPECT_EQ(paths.back(), fs::canonical(scratch.path()));
}

TEST(Synced, WhatIsMovedThenTheFolderThatItIsIn) {
  const Scratch scratch;
  convoy::test::spill(scratch.path("early"), "text");
  synced().clear();
  convoy::move_into_place(scratch.path("early"), scratch.path("kept"));
  ASSERT_EQ(synced().size(), 2u);
  EXPECT_EQ(fs::path(synced()[0]).filename(), "early");
  EXPECT_EQ(synced()[1], fs::canonical(scratch.path()));
}

}  // namespace
