// Real files.
#include <gtest/gtest.h>

#include <filesystem>

#include "server/log/disk.h"
#include "tests/base/scratch.h"
#include "tests/server/log/records.h"

namespace convoy::server {
namespace {

using namespace test;
using namespace convoy::test;

TEST(Folder, HoldsFiles) {
  const Scratch scratch;
  const auto disk = open_folder(scratch.path("made/too"));
  EXPECT_TRUE(disk->list().empty());
  const auto file = disk->create("b");
  file->append(bytes_of("one "), bytes_of("two"));
  file->append({}, {});
  file->append(bytes_of(" three"));
  file->sync();
  EXPECT_EQ(file->size(), 13u);
  Bytes part(5);
  file->read(4, part);
  EXPECT_EQ(part, bytes_of("two t"));
  EXPECT_NE(message_of<Failure>([&] { file->read(9, part); }).find("it ends at byte 13"),
            std::string::npos);
  file->truncate(3);
  file->append(bytes_of("!"));
  EXPECT_THROW(disk->create("b"), Failure);
  disk->create("a");
  disk->rename("b", "a");
  disk->sync_names();
  EXPECT_EQ(disk->list(), std::vector<std::string>{"a"});
  EXPECT_EQ(slurp(disk->path() + "/a"), "one!");
  EXPECT_EQ(disk->open("a")->size(), 4u);
  disk->remove("a");
  EXPECT_THROW(disk->open("a"), Failure);
  EXPECT_THROW(disk->remove("a"), Failure);
  EXPECT_THROW(disk->rename("a", "b"), Failure);
}

TEST(Folder, IsLocked) {
  const Scratch scratch;
  {
    const auto disk = open_folder(scratch.path());
    EXPECT_NE(message_of<Failure>([&] {
                open_folder(scratch.path());
              }).find("is in use by another process"),
              std::string::npos);
  }
  open_folder(scratch.path());
}

TEST(Folder, ThatIsFull) {
  const Scratch scratch;
  const auto disk = open_folder(scratch.path());
  Log log(*disk);
  fill(log, 1, 10);
  const std::uint64_t size = log.bytes();
  {
    const FileSizeLimit limit(size + 100);
    EXPECT_THROW(log.append(11, 1, Bytes(200)), DiskFull);
  }
  EXPECT_EQ(std::filesystem::file_size(scratch.path("log-00000000000000000001")), size);
  fill(log, 11, 12);
  EXPECT_TRUE(holds(log, 12));
}

TEST(Folder, KeepsALog) {
  const Scratch scratch;
  const LogOptions options{.segment_bytes = 1000, .salt = 5};
  {
    const auto disk = open_folder(scratch.path());
    Log log(*disk, options);
    fill(log, 1, 60);
    log.sync();
    log.cut_before(20);
    log.truncate_after(50);
    fill(log, 51, 70, 2);
  }
  const auto disk = open_folder(scratch.path());
  Log log(*disk, options);
  EXPECT_TRUE(holds(log, 70));
  EXPECT_EQ(log.epoch_of(50), 1u);
  EXPECT_EQ(log.epoch_of(51), 2u);
}

}  // namespace
}  // namespace convoy::server
