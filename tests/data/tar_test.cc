#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "data/tar/cursor.h"
#include "tests/data/packed_support.h"

namespace convoy::data {
namespace {

struct Found {
  std::string name;
  TarMember::Kind kind;
  Bytes bytes;
};

std::vector<Found> read_tar(std::span<const std::byte> tar, bool nested = false) {
  ByteSource source(tar, "the.tar");
  TarCursor cursor(source, "the.tar", nested);
  std::vector<Found> found;
  TarMember member;
  while (cursor.next(member)) {
    Bytes bytes(static_cast<std::size_t>(member.size));
    EXPECT_EQ(cursor.bytes().read(bytes), bytes.size());
    if (!nested) {
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(),
                             tar.begin() + static_cast<std::ptrdiff_t>(member.offset)));
    }
    found.push_back({member.name, member.kind, bytes});
  }
  EXPECT_FALSE(cursor.next(member));
  return found;
}

void expect_same(const std::vector<Found>& found, const Members& members) {
  ASSERT_EQ(found.size(), members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(found[i].name, members[i].first);
    EXPECT_EQ(found[i].kind, TarMember::Kind::file);
    EXPECT_EQ(found[i].bytes, members[i].second);
  }
}

std::string deep(std::size_t folders, std::size_t name) {
  std::string path;
  for (std::size_t i = 0; i < folders; ++i) path += std::string(20, 'd') + "/";
  return path + std::string(name, 'n');
}

Members many_names() {
  Members members;
  for (const std::string& name :
       {std::string("a.jpg"), std::string(99, 'x'), std::string(100, 'x'), std::string(101, 'x'),
        std::string(255, 'x'), deep(1, 100), deep(7, 100), deep(8, 100), deep(3, 101), deep(30, 9),
        std::string("caf\xc3\xa9/\xe7\x8c\xab.png")}) {
    members.emplace_back(name, as_bytes("bytes of " + name));
  }
  members.emplace_back("empty", Bytes{});
  members.emplace_back("block", Bytes(512, std::byte{7}));
  members.emplace_back("more", Bytes(513, std::byte{8}));
  return members;
}

TEST(Tar, WhatIsWrittenIsRead) {
  const Members members = many_names();
  expect_same(read_tar(make_tar(members)), members);
}

// GNU tar unpacks what is written here, and what it packs in all its formats is read.
TEST(Tar, AgreesWithTheTarProgram) {
  Scratch folder;
  const Members members = many_names();
  write_bytes(folder.path("ours.tar"), make_tar(members));
  const std::string at = "cd '" + folder.path() + "' && ";
  ASSERT_EQ(std::system((at + "mkdir out && tar -xf ours.tar -C out 2>&1").c_str()), 0);
  for (const auto& [name, bytes] : members) EXPECT_EQ(read_file(folder.path("out/" + name)), bytes);
  for (const std::string format : {"gnu", "pax", "ustar", "v7"}) {
    std::string names;
    std::size_t count = 0;
    for (const auto& [name, bytes] : members) {
      if (name.size() > 99 && (format == "ustar" || format == "v7")) continue;
      names += " '" + name + "'";
      ++count;
    }
    SCOPED_TRACE(format);
    ASSERT_EQ(
        std::system((at + "tar -cf theirs.tar --format=" + format + " -C out" + names).c_str()), 0);
    const auto found = read_tar(read_file(folder.path("theirs.tar")));
    ASSERT_EQ(found.size(), count);
    for (const Found& f : found) EXPECT_EQ(f.bytes, read_file(folder.path("out/" + f.name)));
  }
}

TEST(Tar, KindsOfMembers) {
  Scratch folder;
  const std::string at = "cd '" + folder.path() + "' && ";
  ASSERT_EQ(std::system((at + "mkdir d && echo x > d/f && ln -s f d/s && ln d/f d/h && "
                              "mkfifo d/p && tar -cf t.tar --no-recursion d/f d/s d/h d/p d")
                            .c_str()),
            0);
  std::vector<TarMember::Kind> kinds;
  for (const Found& f : read_tar(read_file(folder.path("t.tar")))) kinds.push_back(f.kind);
  using Kind = TarMember::Kind;
  EXPECT_EQ(kinds,
            (std::vector<Kind>{Kind::file, Kind::link, Kind::link, Kind::other, Kind::folder}));
}

TEST(Tar, LargeSizesInBothNotations) {
  constexpr std::uint64_t kSize = std::uint64_t{20} << 30;
  Bytes header;
  append_tar_header(header, "large", kSize);
  EXPECT_EQ(header.size(), 3 * kTarBlock);  // a pax header, what it says, the member's own
  ByteSource source(header, "the.tar");
  TarReader reader(source, "the.tar");
  TarMember member;
  ASSERT_TRUE(reader.next(member));
  EXPECT_EQ(member.size, kSize);
  EXPECT_EQ(member.name, "large");

  // GNU tar: 0x80, then the number in binary.
  Bytes gnu;
  append_tar_header(gnu, "large", 0);
  for (std::size_t i = 0; i < 12; ++i) gnu[124 + i] = std::byte{0};
  gnu[124] = std::byte{0x80};
  gnu[131] = std::byte{0x05};  // 5 << 32
  unsigned sum = 0;
  for (std::size_t i = 148; i < 156; ++i) gnu[i] = std::byte{' '};
  for (const std::byte b : gnu) sum += std::to_integer<unsigned>(b);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  std::memcpy(&gnu[148], digits, 7);
  EXPECT_EQ(parse_tar_header(std::span<const std::byte, kTarBlock>(gnu)).size,
            std::uint64_t{5} << 32);
}

TEST(Tar, EveryTruncationIsSeen) {
  const Bytes tar = make_tar({{"a", as_bytes("one")}, {std::string(150, 'b'), Bytes(700)}});
  // Of the end mark, the second half may be missing.
  for (std::size_t size = 0; size <= tar.size() - kTarEnd; ++size) {
    expect_error<UsageError>([&] { read_tar(std::span(tar).first(size)); },
                             {"the.tar", "truncated"});
  }
  EXPECT_EQ(read_tar(std::span(tar).first(tar.size() - kTarBlock)).size(), 2u);
}

TEST(Tar, DamagedHeadersAreSeen) {
  const Bytes good = make_tar({{"a", as_bytes("one")}});
  for (std::size_t bit = 0; bit < 8 * kTarBlock; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    // In the checksum's own digits a zero may become a space.
    if (bit / 8 >= 148 && bit / 8 < 156) continue;
    EXPECT_THROW(read_tar(bad), UsageError) << bit;
  }
  expect_error<UsageError>([] { read_tar(as_bytes(std::string(2000, 'x'))); },
                           {"the.tar", "not a tar file"});
  expect_error<UsageError>([&] { read_tar(read_file(fixture("color420.jpg"))); }, {"not a tar"});
}

TEST(Tar, PaxHeaders) {
  const auto parse = [](const std::string& text) { return parse_pax(as_bytes(text)); };
  EXPECT_EQ(parse("13 path=ab/c\n").path, "ab/c");
  EXPECT_EQ(parse("13 path=ab/c\n16 size=1234567\n").size, 1234567u);
  EXPECT_TRUE(parse("22 GNU.sparse.major=1\n").sparse);
  for (const char* bad : {"14 path=ab/c\n", "13 path=ab/c", "12 path=ab/c\n", "x path=a\n", "3 =\n",
                          "99999 path=a\n", "9 size=x\n", "9 no value"}) {
    EXPECT_THROW(parse(bad), UsageError) << bad;
  }
}

TEST(Tar, SparseMembersAreRefused) {
  Scratch folder;
  const std::string at = "cd '" + folder.path() + "' && ";
  ASSERT_EQ(std::system((at + "truncate -s 1M f && echo x >> f").c_str()), 0);
  for (const std::string format : {"gnu", "pax"}) {
    ASSERT_EQ(std::system((at + "tar -S -cf t.tar --format=" + format + " f").c_str()), 0);
    expect_error<UsageError>([&] { read_tar(read_file(folder.path("t.tar"))); }, {"sparse"});
  }
}

// They would be lost: programs end at the mark.
TEST(Tar, MembersBehindTheEndMarkAreAnError) {
  const Bytes first = make_tar({{"a", as_bytes("one")}}), second = make_tar({{"b", Bytes(700)}});
  const auto with = [](Bytes tar, std::span<const std::byte> more) {
    tar.insert(tar.end(), more.begin(), more.end());
    return tar;
  };
  const std::string at = "(at byte " + std::to_string(first.size()) + ")";
  expect_error<UsageError>([&] { read_tar(with(first, second)); },
                           {"the.tar", "behind its end mark", "tar -A", at});
  expect_error<UsageError>(
      [&] {
        read_tar(make_tar({{"cat.tar", with(first, second)}}), true);
      },
      {"the.tar:cat.tar", "behind its end mark"});
  // Zeros are what programs fill up the last record with.
  EXPECT_EQ(read_tar(with(first, Bytes(200'000))).size(), 1u);
  Bytes late = with(first, Bytes(200'000));
  late.back() = std::byte{1};
  expect_error<UsageError>([&] { read_tar(late); },
                           {"(at byte " + std::to_string(late.size() - 1) + ")"});
}

TEST(Tar, TarsInTheTar) {
  const Members inner = {{"1.jpg", as_bytes("one")}, {"2.jpg", as_bytes("two")}};
  const Bytes tar = make_tar({{"cat.tar", make_tar(inner)}, {"dog.tar", make_tar(inner)}});
  const auto found = read_tar(tar, true);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[1].name, "cat/2.jpg");
  EXPECT_EQ(found[2].name, "dog/1.jpg");
  EXPECT_EQ(found[2].bytes, as_bytes("one"));
  // An inner one that is cut short, though the outer one goes on.
  Bytes cut = make_tar(inner);
  cut.resize(cut.size() - kTarEnd);
  expect_error<UsageError>(
      [&] {
        read_tar(make_tar({{"cat.tar", cut}}), true);
      },
      {"the.tar:cat.tar", "truncated"});
}

}  // namespace
}  // namespace convoy::data
