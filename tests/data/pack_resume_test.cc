// The order of packing, and runs that are interrupted.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "data/pack/journal.h"
#include "tests/base/scratch.h"
#include "tests/data/pack_support.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

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
    o.out = folder.path("five.tar");
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
  const std::size_t middle = interrupted(
      [&](const std::string& partial) { zero(partial, fs::file_size(partial) / 2, 4096); });
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

// Names and sizes alone don't tell: a tar of two versions would come of it.
TEST_F(PackMany, ASourceThatWasWrittenAgainIsNotGoneOnWith) {
  struct Stop {};
  const auto stopped = [](PackOptions o) {
    o.tell = [](const PackProgress& p) {
      if (p.done == 8) throw Stop();
    };
    EXPECT_THROW(pack(o), Stop);
  };
  const auto later = [](const std::string& file) {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
  };
  PackOptions o = options("folder.tar");
  o.keep = true;
  stopped(o);
  later(source.path("cat/1000.jpg"));
  expect_error<UsageError>([&] { pack(o); }, {"other sources", "--overwrite"});

  o = options("tar.tar");
  o.keep = true;
  Members members;
  for (int i = 0; i < 12; ++i)
    members.emplace_back("cat/" + std::to_string(i) + ".jpg", image("gray.jpg"));
  write_bytes(folder.path("in.tar"), make_tar(members));
  o.sources = {folder.path("in.tar")};
  stopped(o);
  later(o.sources[0]);
  expect_error<UsageError>([&] { pack(o); }, {"other sources", "--overwrite"});

  o = options("pixels.tar");
  o.keep = true;
  Bytes records(12 * 3073, std::byte{7});
  write_bytes(folder.path("a.bin"), records);
  o.sources = {folder.path("a.bin")};
  stopped(o);
  const auto time = fs::last_write_time(o.sources[0]);
  records[3073 + 5] = std::byte{1};
  write_bytes(folder.path("a.bin"), records);
  fs::last_write_time(o.sources[0], time);
  expect_error<UsageError>([&] { pack(o); }, {"other sources", "--overwrite"});
  records[3073 + 5] = std::byte{7};
  write_bytes(folder.path("a.bin"), records);
  EXPECT_GT(pack(o).resumed, 0u);
}

// In a folder that others write to, as /tmp, a link would lead to any file of the user's.
TEST_F(PackMany, LinksAreNotWrittenThrough) {
  PackOptions o = options();
  o.keep = true;
  const Bytes precious = as_bytes("precious");
  for (const std::string& link : {o.out + ".partial", o.out + ".partial.journal"}) {
    write_bytes(folder.path("mine"), precious);
    fs::create_symlink(folder.path("mine"), link);
    expect_error<Failure>([&] { pack(o); }, {"cannot write " + link, "symbolic links"});
    EXPECT_EQ(read_file(folder.path("mine")), precious);
    fs::remove(o.out + ".partial");
    fs::remove(o.out + ".partial.journal");
  }
  pack(o);
  expect_nothing_left(o.out);
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
  const test::SmallDisk disk(folder.path("disk"), 200'000);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << disk.why_not();
  o.out = folder.path("disk/out.tar");
  expect_error<Failure>([&] { pack(o); }, {o.out, "No space left", "make room"});
  EXPECT_FALSE(fs::exists(o.out));
}

}  // namespace
}  // namespace convoy::data
