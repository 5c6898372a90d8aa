#include "cli/launch/verdict.h"

#include <gtest/gtest.h>

namespace convoy::cli {
namespace {

Report started(int rank) {
  Report report;
  report.kind = Report::Kind::supervised;
  report.rank = rank;
  report.host = "n" + std::to_string(rank);
  report.supervisor = 100 + rank;
  return report;
}

Report ended(int rank, bool signaled, int code, Asked asked = Asked::nobody,
             std::uint64_t time = 0) {
  Report report = started(rank);
  report.kind = Report::Kind::ended;
  report.signaled = signaled;
  report.code = code;
  report.asked = asked;
  report.time_ns = time;
  return report;
}

JobEnd job(int ranks, std::vector<Report> more) {
  JobEnd end;
  end.ranks = ranks;
  for (int rank = 0; rank < ranks; ++rank) end.reports.push_back(started(rank));
  end.reports.insert(end.reports.end(), more.begin(), more.end());
  return end;
}

TEST(Verdict, NamesWhatIsLeft) {
  JobEnd end = job(1, {ended(0, false, 0)});
  end.left = {"process 12 (sh)", "process 13"};
  EXPECT_EQ(judge(end).exit_status, 1);
  EXPECT_EQ(judge(end).line,
            "process 12 (sh) is left: it can't be killed; process 13 is left: it can't be killed");
  end.interrupted_by = 15;
  EXPECT_EQ(judge(end).exit_status, 1);
  end.reports.back() = ended(0, true, 15, Asked::mpirun);
  EXPECT_EQ(judge(end).exit_status, 143);
  EXPECT_TRUE(
      judge(end).line.ends_with("ended; process 12 (sh) is left: it can't be killed; "
                                "process 13 is left: it can't be killed"))
      << judge(end).line;
}

TEST(Verdict, SuccessIsSilent) {
  const Verdict verdict = judge(job(2, {ended(0, false, 0), ended(1, false, 0)}));
  EXPECT_EQ(verdict.exit_status, 0);
  EXPECT_EQ(verdict.line, "");
}

TEST(Verdict, FirstDeathWins) {
  EXPECT_EQ(judge(job(4, {ended(1, true, 9), ended(0, true, 15, Asked::another_process)})).line,
            "rank 1 on host n1 was killed by signal 9 (Killed); the other 3 ranks were ended");
  JobEnd grid = job(4, {ended(3, true, 9)});
  grid.partitions = 2;
  EXPECT_EQ(
      judge(grid).line,
      "rank 3 on host n3 (replica 1, partition 1) was killed by signal 9 (Killed); the other 3 "
      "ranks were ended");
  // Ranks that were told to end are not at fault, even if theirs is the first report.
  EXPECT_EQ(judge(job(2, {ended(0, true, 15, Asked::mpirun), ended(1, false, 3)})).line,
            "rank 1 on host n1 exited with status 3; the other rank was ended");
  // On one host the supervisors' clock decides, not the order of arrival.
  Report late = ended(0, false, 1, Asked::nobody, 20);
  Report early = ended(1, true, 9, Asked::nobody, 10);
  late.host = early.host;
  EXPECT_NE(judge(job(2, {late, early})).line.find("rank 1"), std::string::npos);
}

TEST(Verdict, ExitStatus) {
  EXPECT_EQ(judge(job(2, {ended(0, false, 2)})).exit_status, 2);
  EXPECT_EQ(judge(job(2, {ended(0, false, 3)})).exit_status, 1);
  EXPECT_EQ(judge(job(2, {ended(0, true, 2)})).exit_status, 1);
  Report missing = ended(0, false, 127);
  missing.kind = Report::Kind::cannot_start;
  missing.text = "cannot start 'x': No such file or directory";
  EXPECT_EQ(judge(job(2, {missing})).exit_status, 127);
  EXPECT_EQ(judge(job(2, {missing})).line,
            "rank 0 on host n0: cannot start 'x': No such file or directory");
}

TEST(Verdict, RequeueNeedsAgreement) {
  EXPECT_EQ(judge(job(2, {ended(0, false, 75), ended(1, false, 75)})).exit_status, 75);
  EXPECT_EQ(judge(job(2, {ended(0, false, 75), ended(1, false, 0)})).exit_status, 75);
  EXPECT_EQ(judge(job(2, {ended(0, false, 75), ended(1, false, 3)})).exit_status, 1);
  JobEnd asked = job(2, {ended(0, false, 75, Asked::another_process),
                         ended(1, false, 75, Asked::another_process)});
  asked.interrupted_by = 15;
  EXPECT_EQ(judge(asked).exit_status, 75);
  asked.reports.back() = ended(1, true, 9, Asked::another_process);
  EXPECT_EQ(judge(asked).exit_status, 128 + 15);
}

TEST(Verdict, IsSuccessThoughASignalCame) {
  JobEnd end = job(2, {ended(0, false, 0, Asked::another_process), ended(1, false, 0)});
  end.interrupted_by = 15;
  end.mpirun_code = 143;
  EXPECT_EQ(judge(end).exit_status, 0);
  EXPECT_EQ(judge(end).line, "");
  // A rank that has not said how it ended may have been in the middle of its work.
  end.reports.pop_back();
  EXPECT_EQ(judge(end).exit_status, 128 + 15);
  EXPECT_EQ(judge(end).line, "ended by signal 15 (Terminated); the 2 ranks were ended");
  end.reports.push_back(ended(1, true, 15, Asked::another_process));
  EXPECT_EQ(judge(end).exit_status, 128 + 15);
}

TEST(Verdict, ReadsMpirunsNotices) {
  JobEnd end = job(3, {ended(0, true, 15, Asked::mpirun)});
  end.mpirun_code = 137;
  end.notice = Notice{.rank = 2, .host = "n2", .signaled = true, .code = 9};
  EXPECT_EQ(judge(end).line,
            "rank 2 on host n2 lost its supervisor, which was killed by signal 9 (Killed); the "
            "other 2 ranks were ended");
  end.notice = Notice{.host = "n1", .signaled = true, .code = 9, .supervisor = 101};
  EXPECT_NE(judge(end).line.find("rank 1 on host n1 lost"), std::string::npos);
  end.notice = Notice{.rank = 1, .aborted = true, .code = 6};
  EXPECT_EQ(judge(end).line,
            "rank 1 on host n1 called MPI_Abort with code 6; the other 2 ranks were ended");
  end.notice.reset();
  end.last_words = Notice{.rank = 0, .aborted = true, .code = 1};
  EXPECT_NE(judge(end).line.find("rank 0 on host n0"), std::string::npos);
}

TEST(Verdict, SaysWhenMpirunItselfFailed) {
  JobEnd end;
  end.ranks = 2;
  end.mpirun_code = 213;
  EXPECT_EQ(judge(end).line, "mpirun ended with status 213 before any rank had started");
  EXPECT_FALSE(judge(end).explained);
  end = job(2, {});
  end.mpirun_signaled = true;
  end.mpirun_code = 9;
  EXPECT_EQ(judge(end).line, "mpirun was killed by signal 9 (Killed); the 2 ranks were ended");
  EXPECT_EQ(judge(end).exit_status, 1);
}

TEST(Verdict, NeverTakesALostRankForSuccess) {
  EXPECT_EQ(judge(job(2, {ended(0, false, 0)})).exit_status, 1);
}

}  // namespace
}  // namespace convoy::cli
