#include "cli/launch/filter.h"

#include <gtest/gtest.h>

namespace convoy::cli {
namespace {

constexpr int kMpirunPid = 4242;
const std::string kToken = "convoy-0123456789abcdef";
const std::string kFrame = std::string(74, '-') + "\n";
const std::string kAbort =
    kFrame +
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n\n"
    "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n" +
    kFrame;
const std::string kNoticed = kFrame +
                             "mpirun.openmpi noticed that process rank 2 with PID 0 on node n7 "
                             "exited on signal 9 (Killed).\n" +
                             kFrame;
const std::string kMpich =
    "\n" + std::string(83, '=') +
    "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 6430 RUNNING AT vm\n"
    "=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n" +
    std::string(83, '=') +
    "\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"
    "This typically refers to a problem with your application.\n"
    "Please see the FAQ page for debugging suggestions\n";

StreamFilter make_filter(bool keep = false) { return {kToken, "mpirun.openmpi", kMpirunPid, keep}; }

Report make_report(int rank) {
  Report report;
  report.rank = rank;
  report.host = "n7";
  report.signaled = true;
  report.code = 9;
  report.text = "why not";
  return report;
}

// The output for a stream that arrives in pieces of this size.
std::string pass(StreamFilter& filter, const std::string& stream, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < stream.size(); at += piece)
    out += filter.feed(stream.substr(at, piece));
  return out + filter.release();
}

TEST(Filter, TakesReportsOutWhereverTheyStand) {
  const std::string report = format_report(make_report(3), kToken);
  for (std::size_t piece : {1, 2, 7, 4096}) {
    StreamFilter filter = make_filter();
    EXPECT_EQ(pass(filter, "abc\nde" + report + "f\n" + report, piece), "abc\ndef\n");
    const auto reports = filter.take_reports();
    ASSERT_EQ(reports.size(), 2u);
    EXPECT_EQ(reports[0].rank, 3);
    EXPECT_EQ(reports[0].host, "n7");
    EXPECT_TRUE(reports[0].signaled);
    EXPECT_EQ(reports[0].text, "why not");
  }
}

TEST(Filter, TakesMpirunsAnswerToASecondSignalOut) {
  const std::string answer = "mpirun.openmpi: abort is already in progress...hit ctrl-c again\n";
  for (std::size_t piece : {1, 3, 4096}) {
    StreamFilter filter = make_filter();
    EXPECT_EQ(pass(filter, "a\n" + answer + "\nb\n\n" + answer + "c\n" + answer, piece),
              "a\nb\n\nc\n")
        << piece;
  }
}

TEST(Filter, TakesObituariesOutAndReadsThem) {
  for (std::size_t piece : {1, 3, 74, 75, 4096}) {
    StreamFilter filter = make_filter();
    EXPECT_EQ(pass(filter,
                   "before" + kAbort + kNoticed +
                       "[vm:4242] 1 more process has sent help message\nafter\n",
                   piece),
              "beforeafter\n")
        << piece;
    ASSERT_TRUE(filter.notice());
    EXPECT_TRUE(filter.notice()->aborted);
    EXPECT_EQ(filter.notice()->rank, 1);
    EXPECT_EQ(filter.notice()->code, 3);
    EXPECT_NE(filter.messages().find(kAbort), std::string::npos);
  }
  StreamFilter filter = make_filter();
  EXPECT_EQ(pass(filter, kNoticed, 10), "");
  EXPECT_EQ(filter.notice()->rank, 2);
  EXPECT_EQ(filter.notice()->host, "n7");
  EXPECT_EQ(filter.notice()->code, 9);
}

TEST(Filter, ReadsMpichToo) {
  for (std::size_t piece : {1, 50, 4096}) {
    StreamFilter filter = make_filter();
    EXPECT_EQ(pass(filter, "x\n" + kMpich + "y\n", piece), "x\ny\n") << piece;
    EXPECT_EQ(filter.notice()->supervisor, 6430);
    EXPECT_EQ(filter.notice()->code, 9);
  }
}

TEST(Filter, LeavesEverythingElseAlone) {
  const std::string table = kFrame + "epoch loss\n" + kFrame + "1 0.5\n" + kFrame;
  const std::string others = "-- --- ----\n\n\n===\n" + std::string(200, '-') + "\n" + kFrame +
                             "[vm:77] *** Process received signal ***\nmpirun.openmpi: hello\n" +
                             std::string(83, '=') + "\n\x1e not ours\n" + kFrame + "open end";
  for (std::size_t piece : {1, 5, 64, 8192}) {
    StreamFilter filter = make_filter();
    EXPECT_EQ(pass(filter, table + others, piece), table + others);
    EXPECT_FALSE(filter.notice());
  }
  // A table in front of an obituary shares no frame with it.
  StreamFilter filter = make_filter();
  EXPECT_EQ(pass(filter, table + kAbort, 4096), table);
}

TEST(Filter, KeepsMessagesOnRequest) {
  StreamFilter filter = make_filter(true);
  EXPECT_EQ(pass(filter, "a\n" + kAbort + "b\n", 11), "a\n" + kAbort + "b\n");
  EXPECT_EQ(filter.notice()->rank, 1);
}

TEST(Filter, HearsWhatRanksSayAtTheEnd) {
  StreamFilter filter = make_filter();
  const std::string line =
      "convoy: rank 4 on n7 waits in allreduce, but rank 2 on n6 does not answer\n";
  EXPECT_EQ(filter.feed(line), line);
  EXPECT_EQ(filter.last_words()->rank, 4);
}

TEST(Filter, HoldsOnlyWhatMayBeSpecial) {
  StreamFilter filter = make_filter();
  EXPECT_EQ(filter.feed("loading... 50%\r"), "loading... 50%\r");
  EXPECT_EQ(filter.feed("done --"), "done ");
  EXPECT_TRUE(filter.holds());
  EXPECT_EQ(filter.feed("> x"), "--> x");
  EXPECT_FALSE(filter.holds());
}

TEST(Reports, RefuseWhatIsNotOne) {
  for (const char* line :
       {"", "1", "9 0 h 1 1 0 0 0 0", "1 -1 h 1 1 0 0 0 0", "x 0 h 1 1 0 0 0 0"}) {
    EXPECT_FALSE(parse_report(line)) << line;
  }
}

}  // namespace
}  // namespace convoy::cli
