#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/log.h"
#include "convoy/base/names.h"
#include "convoy/base/random.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"

namespace convoy {
namespace {

// Errors of LibTorch end with where they come from, which is no user's business.
TEST(Errors, AreSaidWithoutStackFrames) {
  for (const char* rest : {"\nException raised from empty at a.cpp:3 (most recent call first):\n",
                           "\nframe #0: c10::ThrowEnforceNotMet + 0x5a\nframe #1: main\n", ""}) {
    EXPECT_EQ(message_of(std::runtime_error(std::string("there is none") + rest)), "there is none");
  }
}

TEST(Units, BytesAsPeopleReadThem) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(64 << 10), "64 KiB");
  EXPECT_EQ(format_bytes(98'041'856), "93.5 MiB");
}

TEST(Units, BytesAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("64k"), 65536u);
  EXPECT_EQ(parse_bytes("93 MiB"), 93u << 20);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000u);
  for (const char* bad : {"", "x", "-1", "3q", "1kk", "1e30G", "nan"})
    EXPECT_THROW(parse_bytes(bad), UsageError) << bad;
}

TEST(Units, Seconds) {
  EXPECT_EQ(format_seconds(0.00085), "850 us");
  EXPECT_EQ(format_seconds(4.2), "4.20 s");
  EXPECT_EQ(format_seconds(125), "2 min 5 s");
  EXPECT_EQ(format_seconds(11520), "3 h 12 min");
  EXPECT_EQ(format_seconds(40 * 3600), "40 h 0 min");
  EXPECT_EQ(format_seconds(5 * 86400 + 7 * 3600), "5 d 7 h");
  EXPECT_EQ(format_seconds(1e8), "3.17 years");
  EXPECT_EQ(format_seconds(1e300), "3.17e+292 years");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "nan");
}

// SplitMix64's published first outputs for the state 1234567 pin the mixer; the permutation below
// pins the rest, since resumed epochs depend on it for ever.
TEST(Random, IsTheSameEverywhere) {
  EXPECT_EQ(permutation(10, 1, 0), permutation(10, 1, 0));
  EXPECT_NE(permutation(10, 1, 0), permutation(10, 1, 1));
  EXPECT_NE(permutation(10, 1, 2), permutation(10, 2, 1));
}

TEST(Random, PermutationsAreFair) {
  // Each of the 24 orders of 4 things, 24,000 draws: 1000 each, sigma 31.
  std::map<std::vector<std::size_t>, int> seen;
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) ++seen[permutation(4, 99, epoch)];
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 160);
}

TEST(Random, BelowIsBelow) {
  RandomStream random(3);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(7), 7u);
  for (int i = 0; i < 1000; ++i) {
    const double u = random.uniform();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
}

TEST(Random, NumbersByTheirPlaceAreThoseInOrder) {
  RandomStream random(3, 1, 4);
  const RandomStream start = random;
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(random(), start.at(i));
  EXPECT_EQ(start.at(100), random.at(0));
  // FNV-1a's published value for "foobar".
  EXPECT_EQ(number_of("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(number_of(""), 0xcbf29ce484222325ULL);
}

TEST(Names, NearestOrNone) {
  const std::vector<std::string> known{"resnet18", "resnet50", "lenet"};
  EXPECT_EQ(nearest_name("resnet51", known), "resnet50");
  EXPECT_EQ(nearest_name("lenett", known), "lenet");
  EXPECT_EQ(nearest_name("transformer", known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Names, InALineOfATerminal) {
  EXPECT_EQ(printable("a b/\xc3\xa9\xe7\x8c\xab.png"), "a b/\xc3\xa9\xe7\x8c\xab.png");
  EXPECT_EQ(printable("\x1b[31mred\n\x7f"), "\\x1b[31mred\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b[31m\xc2\xb5"), "\\x9b[31m\xc2\xb5");
  EXPECT_EQ(printable_lines("one:\ta\x1b[31m\n\ntwo\r\n"), "one:\ta\\x1b[31m\n\ntwo\\x0d\n");
  EXPECT_EQ(printable_lines(""), "");
}

// Names of files and classes are others' words.
TEST(Log, ShowsNoControlCharacters) {
  testing::internal::CaptureStderr();
  Log("here").warning("a\x1b[31m.png is damaged\nand so is b.png");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("here] warning: a\\x1b[31m.png is damaged\nand so is b.png\n"),
            std::string::npos)
      << text;
}

TEST(System, HasACore) {
  EXPECT_FALSE(usable_cores().empty());
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(describe_signal(9), "signal 9 (Killed)");
}

}  // namespace
TEST(System, SaysWhatThisProcessHasOfMemory) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::uint64_t before = resident_memory();
  ASSERT_GT(before, 0u);
  EXPECT_GE(peak_memory(), before);
  {
    std::vector<char> memory(kBytes);
    volatile char* const bytes = memory.data();  // or there would be none
    for (std::size_t i = 0; i < kBytes; i += 4096) bytes[i] = 'x';
    EXPECT_GE(resident_memory(), before + kBytes / 2);
  }
  EXPECT_GE(peak_memory(), before + kBytes / 2);
  // Where memory goes back at once, the peak does so when it is told to.
  const std::uint64_t after = resident_memory();
  if (forget_peak_memory() && after < before + kBytes / 4)
    EXPECT_LT(peak_memory(), before + kBytes / 2);
}

}  // namespace convoy
