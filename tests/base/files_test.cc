#include "convoy/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using test::entries;
using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

TEST(Files, ReadsWholeFiles) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  for (const std::size_t size : {0u, 1u, 4095u, 4096u, 300'000u}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i);
    spill(path, text);
    EXPECT_EQ(read_text_file(path), text);
    EXPECT_EQ(read_file(path, size).size(), size);
    if (size > 0) {
      EXPECT_THROW(read_file(path, size - 1), UsageError);
    }
  }
}

TEST(Files, ReadsPipes) {
  const Scratch scratch;
  const std::string path = scratch.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string text(100'000, 'y');
  const pid_t child = ::fork();
  if (child == 0) {
    spill(path, text);
    ::_exit(0);
  }
  EXPECT_EQ(read_text_file(path), text);
  ::waitpid(child, nullptr, 0);
}

TEST(Files, SaysWhatCantBeRead) {
  const Scratch scratch;
  const auto message = [](const std::string& path) {
    return message_of<UsageError>([&] { read_file(path); });
  };
  EXPECT_EQ(message(scratch.path("none")),
            "cannot read " + scratch.path("none") + ": No such file or directory");
  EXPECT_EQ(message(scratch.path()), "cannot read " + scratch.path() + ": it is a folder");
}

TEST(Files, AppearWholeOrNotAtAll) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  spill(path, "old");
  {
    AtomicFile file(path);
    file.write(std::string("new"));
    EXPECT_EQ(slurp(path), "old");
  }
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(entries(scratch.path()), 1u);

  AtomicFile file(path);
  file.write(std::string("new"));
  file.commit();
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(entries(scratch.path()), 1u);
  EXPECT_THROW(file.write(std::string("more")), UsageError);
  EXPECT_THROW(file.commit(), UsageError);
}

TEST(Files, NamesThatCantBeWritten) {
  const Scratch scratch;
  const std::string path = scratch.path("none/file");
  EXPECT_EQ(message_of<Failure>([&] { write_file_atomically(path, "x"); }),
            "cannot write " + path + ": open: No such file or directory");
  fs::create_directory(scratch.path("folder"));
  EXPECT_THROW(write_file_atomically(scratch.path("folder"), "x"), Failure);
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(Files, AFileThatGrowsTooLargeLeavesTheOldOne) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  spill(path, "old");
  std::string message;
  {
    const test::FileSizeLimit limit(10'000);
    message = message_of<Failure>([&] { write_file_atomically(path, std::string(20'000, 'x')); });
  }
  EXPECT_EQ(message, "cannot write " + path + ": write: File too large");
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(Files, AFullDiskLeavesTheOldFile) {
  const Scratch scratch;
  const test::SmallDisk disk(scratch.path("disk"), 64 << 10);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << disk.why_not();
  const std::string path = scratch.path("disk/file");
  write_file_atomically(path, "old");
  const std::string message =
      message_of<Failure>([&] { write_file_atomically(path, std::string(1 << 20, 'x')); });
  EXPECT_EQ(message, "cannot write " + path + ": write: No space left on device");
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(entries(scratch.path("disk")), 1u);
}

TEST(Folders, AppearWholeOrNotAtAll) {
  const Scratch scratch;
  const std::string path = scratch.path("a/b/folder");
  write_folder_atomically(path, [&](const std::string& folder) {
    EXPECT_FALSE(fs::exists(path));
    spill(folder + "/one", "1");
    fs::create_directory(folder + "/sub");
    spill(folder + "/sub/two", "2");
  });
  EXPECT_EQ(slurp(path + "/one"), "1");
  EXPECT_EQ(slurp(path + "/sub/two"), "2");
  EXPECT_EQ(entries(scratch.path("a/b")), 1u);

  EXPECT_THROW(write_folder_atomically(path, [](const std::string&) {}), UsageError);
  const auto interrupted = [](const std::string& folder) {
    spill(folder + "/half", "");
    throw std::logic_error("interrupted");
  };
  EXPECT_THROW(write_folder_atomically(scratch.path("a/b/other"), interrupted), std::logic_error);
  EXPECT_THROW(write_folder_atomically(path, interrupted, Existing::replace), std::logic_error);
  EXPECT_EQ(entries(scratch.path("a/b")), 1u);
  EXPECT_EQ(slurp(path + "/one"), "1");
}

TEST(Folders, AreReplaced) {
  const Scratch scratch;
  const std::string path = scratch.path("folder/");
  for (const char* text : {"1", "2", "3"}) {
    write_folder_atomically(
        path, [&](const std::string& folder) { spill(folder + "/" + text, text); },
        Existing::replace);
    EXPECT_EQ(entries(path), 1u);
    EXPECT_EQ(slurp(path + text), text);
    EXPECT_EQ(entries(scratch.path()), 1u);
  }
}

TEST(Folders, LeftoversOfAKilledWriterGo) {
  const Scratch scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    write_folder_atomically(scratch.path("killed"), [](const std::string& folder) {
      spill(folder + "/half", "half");
      ::raise(SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entries(scratch.path()), 1u);
  EXPECT_FALSE(fs::exists(scratch.path("killed")));
  write_folder_atomically(scratch.path("next"), [](const std::string&) {});
  EXPECT_EQ(entries(scratch.path()), 1u);
  EXPECT_TRUE(fs::is_directory(scratch.path("next")));
}

TEST(Folders, WhereThereCanBeNone) {
  const Scratch scratch;
  make_folders(scratch.path("a/b/c/"));
  make_folders(scratch.path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(scratch.path("a/b/c")));
  spill(scratch.path("file"), "");
  const std::string message = message_of<Failure>([&] { make_folders(scratch.path("file/sub")); });
  EXPECT_EQ(message, "cannot make the folder " + scratch.path("file/sub") + ": Not a directory");
  EXPECT_THROW(make_folders(scratch.path("file")), Failure);
}

}  // namespace
}  // namespace convoy
