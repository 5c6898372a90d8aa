// Programs that know nothing of Convoy, with libconvoy_mpi.so preloaded.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/leave_out.h"
#include "tests/preload/preloaded.h"

namespace convoy::test {
namespace {

class Preload : public testing::TestWithParam<int> {};
#ifdef MPICH  // its ranks never yield, so that more of them than cores take minutes
INSTANTIATE_TEST_SUITE_P(Ranks, Preload, testing::Values(1, 2, 3));
#else
INSTANTIATE_TEST_SUITE_P(Ranks, Preload, testing::Values(1, 2, 3, 5));
#endif

TEST_P(Preload, GivesMpisResults) {
  const Result result = preloaded(GetParam(), kProgram + "results",
                                  "'CONVOY_ALLREDUCE=..4KiB mpi; ..64KiB recursive-doubling; "
                                  "nodes=1 ring-rsag'");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  const std::size_t expected = result.output.find("expected: ");
  ASSERT_NE(expected, std::string::npos) << result.output;
  int taken = 0, calls = 0;
  std::sscanf(result.output.c_str() + expected, "expected: %d of %d", &taken, &calls);
  const Counts counts = counts_in(result.output);
  EXPECT_EQ(counts.taken, taken) << result.output;
  EXPECT_EQ(counts.calls, calls) << result.output;
}

TEST_P(Preload, TakesNothingThatItHasNoReductionFor) {
  const Result result = preloaded(GetParam(), kProgram + "left", "'CONVOY_ALLREDUCE=ring'");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output).taken, 0) << result.output;
}

TEST_P(Preload, FollowsCommunicators) {
  const Result result = preloaded(GetParam(), kProgram + "communicators");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  if (GetParam() > 1) {
    // Of three calls each; rank 0's half of two is itself.
    const int rounds = 1 + 3 * (GetParam() > 2 ? 3 : 2) + 20 + 1;
    EXPECT_EQ(counts_in(result.output).taken, 3 * rounds) << result.output;
  }
}

TEST_P(Preload, WorksUnderAnyNumberOfThreads) {
  const Result result = preloaded(GetParam(), kProgram + "threads");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  if (GetParam() > 1) {
    EXPECT_EQ(counts_in(result.output), (Counts{80, 80, 0, 0, 0})) << result.output;
  }
}

TEST(PreloadTypes, HandlesMayDifferBetweenRanks) {
  const Result result = preloaded(3, kProgram + "mixed_handles");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output).others, 0) << result.output;
}

TEST(PreloadFortran, BothModulesAreTakenOver) {
#ifndef FORTRAN
  LEAVE_OUT("there is no compiler of Fortran");
#endif
  for (const std::string program : {PROGRAM "_fortran", PROGRAM "_f08"}) {
    const Result result = preloaded(2, program);
    EXPECT_EQ(result.exit_status, 0) << program << result.output;
    EXPECT_EQ(counts_in(result.output), (Counts{3, 3, 0, 0, 0})) << program << result.output;
  }
}

TEST(PreloadErrors, AreMpis) {
  const Result with = preloaded(2, kProgram + "errors");
  const Result without = alone(2, kProgram + "errors");
  EXPECT_EQ(with.exit_status, 0) << with.output;
  EXPECT_EQ(without.exit_status, 0) << without.output;
  const auto classes = [](const std::string& output) {
    std::istringstream text(output);
    std::string lines;
    for (std::string line; std::getline(text, line);) {
      if (line.find(": class ") != line.npos) lines += line + '\n';
    }
    return lines;
  };
  EXPECT_EQ(classes(with.output), classes(without.output));
  EXPECT_NE(classes(with.output).find("no operation: class"), std::string::npos);
  EXPECT_EQ(counts_in(with.output).taken, 2) << with.output;
}

TEST(PreloadErrors, OfConvoyEndTheJob) {
  const Result result = preloaded(2, kProgram + "mismatch");
  EXPECT_NE(result.exit_status, 0) << result.output;
  EXPECT_NE(result.exit_status, 124) << "a rank hangs: " << result.output;
  EXPECT_NE(result.output.find("convoy: rank "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("[in allreduce(sum, "), std::string::npos) << result.output;
}

TEST(PreloadErrors, CheckedCallsNameBothRanks) {
  const Result result = preloaded(2, kProgram + "mismatch", "CONVOY_CHECK_CALLS=1");
  EXPECT_NE(result.exit_status, 0) << result.output;
  EXPECT_NE(result.output.find("50000 x f32"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("60000 x f32"), std::string::npos) << result.output;
}

#ifndef MPICH  // it always minds
TEST(PreloadErrors, OneBufferTwiceIsTakenWhereMpiTakesIt) {
  const std::string lenient = "OMPI_MCA_mpi_param_check=0 ";
  EXPECT_EQ(alone(3, "env " + lenient + kProgram + "alias").exit_status, 0);
  const Result result = preloaded(3, kProgram + "alias", lenient);
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{3, 3, 0, 0, 0})) << result.output;
}
#endif

TEST(PreloadPresence, RanksWithoutTheLibraryAreNoticed) {
  // Whether each rank has it.
  for (const auto& ranks : {std::array{true, true, false}, std::array{false, true, true},
                            std::array{false, true, false}}) {
    std::string command = CONVOY_MPIRUN;
    for (const bool with : ranks)
      command += (command == CONVOY_MPIRUN ? "" : " :") + part(1, with, kProgram + "plain");
    const Result result = run(command);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    EXPECT_EQ(times(result.output, "runs without libconvoy_mpi.so: all calls"), 1) << result.output;
    if (ranks[0]) {
      EXPECT_EQ(counts_in(result.output), (Counts{3, 0, 0, 0, 3})) << result.output;
    }
  }
}

TEST(PreloadPresence, PartsOfAJobMayAllHaveIt) {
  const Result result = run(CONVOY_MPIRUN + part(1, true, kProgram + "plain") + " :" +
                            part(2, true, kProgram + "plain"));
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{3, 3, 0, 0, 0})) << result.output;
}

#ifndef MPICH  // whose launcher does not speak PMIx
// Rank 1 gets no answer to its first questions; the ranks have the library or not.
Result with_slow_launcher(const std::vector<bool>& ranks, int questions) {
  std::string command = CONVOY_MPIRUN;
  for (const bool with : ranks) {
    command += command == CONVOY_MPIRUN ? "" : " :";
    command += " -n 1" + kUntilItHangs + "env " SANITIZER_OPTIONS " ";
    if (with) {
      command += "CONVOY_MPI_VERBOSE=1 CONVOY_MPI_AFTER=0 SLOW_RANK=1 SLOW_QUESTIONS=" +
                 std::to_string(questions) + " LD_PRELOAD=" LIBRARY ":" SLOW_LAUNCHER " ";
    }
    command += kProgram + "plain";
  }
  return run(command);
}

TEST(PreloadPresence, ALauncherMayBeSlowToAnswer) {
  for (const int questions : {0, 1, 5}) {
    const Result all = with_slow_launcher({true, true, true}, questions);
    EXPECT_EQ(all.exit_status, 0) << all.output;
    EXPECT_EQ(counts_in(all.output), (Counts{3, 3, 0, 0, 0})) << all.output;
    const Result some = with_slow_launcher({true, true, false}, questions);
    EXPECT_EQ(some.exit_status, 0) << some.output;
    EXPECT_EQ(counts_in(some.output), (Counts{3, 0, 0, 0, 3})) << some.output;
  }
}

TEST(PreloadPresence, WithoutAnAnswerNoRankDecidesAlone) {
  const Result result = with_slow_launcher({true, true, true}, 1'000'000);
  EXPECT_NE(result.exit_status, 0) << result.output;
  EXPECT_NE(result.exit_status, 124) << "a rank hangs: " << result.output;
  EXPECT_NE(result.output.find("whether rank 0 has libconvoy_mpi.so"), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("on rank 0: of"), std::string::npos) << result.output;
}

TEST(PreloadPresence, KeysMayEndWithTheRank) {
  for (const auto& ranks : {std::array{true, true, true}, std::array{true, true, false},
                            std::array{false, true, true}, std::array{true, false, true}}) {
    std::string command = CONVOY_MPIRUN;
    for (const bool with : ranks) {
      command += command == CONVOY_MPIRUN ? "" : " :";
      command += " -n 1" + kUntilItHangs +
                 "env " SANITIZER_OPTIONS
                 " CONVOY_MPI_VERBOSE=1 CONVOY_MPI_AFTER=0 LD_PRELOAD=" RANK_KEYS +
                 std::string(with ? ":" LIBRARY " " : " ") + kProgram + "plain";
    }
    const Result result = run(command);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    const bool all = ranks[0] && ranks[1] && ranks[2];
    EXPECT_EQ(times(result.output, "runs without libconvoy_mpi.so: all calls"), all ? 0 : 1)
        << result.output;
    if (ranks[0]) {
      EXPECT_EQ(counts_in(result.output), (Counts{3, all ? 3 : 0, 0, 0, all ? 0 : 3}))
          << result.output;
    }
  }
}

TEST(PreloadPresence, ARankAloneAsksNobody) {
  const Result result =
      run(CONVOY_MPIRUN " -n 1 env " SANITIZER_OPTIONS
                        " SLOW_RANK=0 SLOW_QUESTIONS=0 LD_PRELOAD=" LIBRARY ":" SLOW_LAUNCHER " " +
          kProgram + "plain");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}
#endif

#ifndef MPICH  // MPI_Comm_spawn fails in Debian's 4.0
TEST(PreloadPresence, RanksOfOtherJobsAreLeftAlone) {
  for (const bool children : {false, true}) {
    // Children have what the launcher has.
    const Result result =
        run((children ? "env " SANITIZER_OPTIONS " LD_PRELOAD=" LIBRARY " " : "") +
            std::string(CONVOY_MPIRUN) + part(2, true, kProgram + "spawn"));
    EXPECT_EQ(result.exit_status, 0) << result.output;
    EXPECT_EQ(counts_in(result.output), (Counts{15, 6, 0, 0, 9})) << result.output;
  }
}

#endif

TEST(PreloadMemory, WithoutAnyFewEnginesAreTried) {
  // With messages then: of 40 communicators these are the first and those after 1, 2, 4, 8, 16
  // more.
  const Result result = preloaded(2, kProgram + "no_memory", "CONVOY_ALLREDUCE=ring-rsag");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{40, 6, 0, 0, 34})) << result.output;
}

TEST(PreloadEnd, CallbacksOfACommunicatorThatIsFreedAreMpis) {
  const Result result = preloaded(3, kProgram + "attributes");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{33, 15, 0, 0, 18})) << result.output;
}

// Each step is a collective call.
TEST(PreloadEnd, FreesInOneOrder) {
  const Result result = preloaded(3, kProgram + "order");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  std::array<std::string, 3> orders;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    int rank = 0;
    std::array<char, 32> name{};
    if (std::sscanf(line.c_str(), "rank %d ends %31s", &rank, name.data()) == 2)
      orders.at(static_cast<std::size_t>(rank)) += name.data() + std::string(" ");
  }
  EXPECT_EQ(times(orders[0], "comm-"), 12) << result.output;
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST(PreloadEnd, CallsInsideOfFinalizeAreMpis) {
  const Result result = preloaded(3, kProgram + "at_the_end");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{3, 3, 0, 0, 0})) << result.output;
}

TEST(PreloadWait, RanksMayComeLate) {
  const Result result = preloaded(2, kProgram + "late", "CONVOY_TIMEOUT=1");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

TEST(PreloadWait, TheProgramsMessagesGoOn) {
  for (const std::string rules : {"shared", "ring-rsag", "recursive-doubling"}) {
    // Open MPI's receiver could fetch the message without its sender's help.
    const Result result = preloaded(2, kProgram + "progress",
                                    "OMPI_MCA_btl_vader_single_copy_mechanism=none "
                                    "CONVOY_ALLREDUCE=" +
                                        rules);
    EXPECT_EQ(result.exit_status, 0) << rules << result.output;
    EXPECT_EQ(counts_in(result.output), (Counts{6, 6, 0, 0, 0})) << rules << result.output;
  }
}

#ifdef MPICH  // it has 2048; Open MPI's 65536 take too long to use up
TEST(PreloadCommunicators, MayAllBeInUse) {
  const Result result = preloaded(2, kProgram + "exhausted");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_EQ(counts_in(result.output), (Counts{3, 0, 0, 0, 3})) << result.output;
}
#endif

}  // namespace
}  // namespace convoy::test
