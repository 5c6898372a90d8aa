// The preload library's settings, what it keeps, and programs that it has to leave alone.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/preload/preloaded.h"

namespace convoy::test {
namespace {

TEST(PreloadSettings, RulesOfTheUserComeFirst) {
  const Result all = preloaded(2, kProgram + "plain", "'CONVOY_ALLREDUCE=recursive-doubling'");
  EXPECT_EQ(counts_in(all.output), (Counts{3, 3, 0, 0, 0})) << all.output;
  const Result none = preloaded(2, kProgram + "plain", "'CONVOY_ALLREDUCE=mpi'");
  EXPECT_EQ(counts_in(none.output), (Counts{3, 0, 3, 0, 0})) << none.output;
  // Made for hosts that are not these: found out when the first call might be taken.
  const Result hosts = preloaded(2, kProgram + "plain", "'CONVOY_ALLREDUCE=nodes=1 mpi'");
  EXPECT_EQ(counts_in(hosts.output), (Counts{3, 0, 3, 0, 0})) << hosts.output;
}

TEST(PreloadSettings, AnEngineIsMadeOnceItIsWorthIt) {
  // A call of 12 bytes, then two of 200,004.
  const auto counts = [](const std::string& after) {
    const Result result = preloaded(2, kProgram + "plain", "CONVOY_MPI_AFTER=" + after);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    return counts_in(result.output);
  };
  EXPECT_EQ(counts("1"), (Counts{3, 2, 0, 1, 0}));
  EXPECT_EQ(counts("200kB"), (Counts{3, 1, 0, 2, 0}));
  EXPECT_EQ(counts("1GiB"), (Counts{3, 0, 0, 3, 0}));
  const Result wrong = preloaded(2, kProgram + "plain", "CONVOY_MPI_AFTER=soon");
  EXPECT_NE(wrong.exit_status, 0);
  EXPECT_NE(wrong.output.find("'soon'"), std::string::npos) << wrong.output;
}

TEST(PreloadSettings, MistakesAreSaidOnce) {
  Result result = preloaded(3, kProgram + "plain", "'CONVOY_ALLREDUCE=64KiB.. rinng'");
  EXPECT_NE(result.exit_status, 0);
  const std::size_t said = result.output.find("did you mean 'ring'?");
  EXPECT_NE(said, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("did you mean 'ring'?", said + 1), std::string::npos)
      << result.output;

  // Each rank says something else.
  result = preloaded(3, R"(sh -c 'CONVOY_ALLREDUCE="$$.. ring" exec )" PROGRAM " plain'");
  EXPECT_NE(result.exit_status, 0);
  EXPECT_NE(result.output.find("differs between ranks"), std::string::npos) << result.output;
}

TEST(PreloadDeviceMemory, LeavesEverythingToAnMpiThatReadsIt) {
  const std::string program = PROGRAM "_device plain";
  for (const char* kind : {"DEVICE_KIND=cuda", "DEVICE_KIND=hip"}) {
    const Result result = preloaded(2, program, kind);
    EXPECT_EQ(counts_in(result.output), (Counts{3, 0, 0, 0, 3})) << result.output;
    EXPECT_NE(result.output.find("CONVOY_MPI_HOST_MEMORY"), std::string::npos) << result.output;
  }
  const Result result = preloaded(2, program, "DEVICE_KIND=cuda CONVOY_MPI_HOST_MEMORY=1");
  EXPECT_EQ(counts_in(result.output), (Counts{3, 3, 0, 0, 0})) << result.output;
}

// What a rank keeps, as it says itself.
struct Kept {
  long resident = -1, mappings = -1, files = -1;
};
Kept kept(const std::string& output, int rank, const std::string& when) {
  Kept kept;
  const std::string line = "rank " + std::to_string(rank) + ' ' + when;
  const std::size_t at = output.find(line);
  if (at == output.npos) return kept;
  std::sscanf(output.c_str() + at + line.size(),
              ": VmRSS %ld KiB VmHWM %*d KiB mappings %ld files %ld", &kept.resident,
              &kept.mappings, &kept.files);
  return kept;
}

std::string sums(const std::string& output) {
  std::istringstream text(output);
  std::string found;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("sum ", 0) == 0) found += line + '\n';
  }
  return found;
}

// docs/preload.md has the figures of a long run.
TEST(PreloadSoak, ResultsAreTheSameAndNothingIsKept) {
  const int ranks = 3;
  const std::string program = SOAK " 600 20000000 40";
  const Result with = preloaded(ranks, program, "'CONVOY_ALLREDUCE=..1KiB mpi'");
  const Result without = alone(ranks, program);
  EXPECT_EQ(with.exit_status, 0) << with.output;
  EXPECT_EQ(without.exit_status, 0) << without.output;
  EXPECT_EQ(times(sums(with.output), "sum"), ranks) << with.output;
  EXPECT_EQ(sums(with.output), sums(without.output));
  EXPECT_GT(counts_in(with.output).taken, 100) << with.output;
  for (int rank = 0; rank < ranks; ++rank) {
    const Kept begin = kept(with.output, rank, "begins"),
               end = kept(with.output, rank, "has split");
    ASSERT_GT(begin.resident, 0) << with.output;
    EXPECT_LE(end.mappings, begin.mappings) << with.output;
    EXPECT_LE(end.files, begin.files) << with.output;
#ifndef SANITIZED
    EXPECT_LT(end.resident - begin.resident, 4096) << with.output;
#endif
  }
}

TEST(PreloadOthers, ProgramsWithoutMpiAreLeftAlone) {
  const Result result = run("env " SANITIZER_OPTIONS " LD_PRELOAD=" LIBRARY " echo well");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.output, "well\n");
}

#ifdef OTHER_MPIRUN
TEST(PreloadOthers, AnotherMpiIsLeftAlone) {
  const Result result = run(OTHER_MPIRUN " -n 2" + kUntilItHangs +
                            "env LD_PRELOAD=" LIBRARY " " OTHER_PROGRAM " plain");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_NE(result.output.find("this program uses another MPI"), std::string::npos)
      << result.output;
}
#endif

}  // namespace
}  // namespace convoy::test
