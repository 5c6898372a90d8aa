// What `convoy run` does with jobs that end, well or badly, and with bad command lines.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/system.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

JobResult run(Lines arguments, const Lines& variables = {}) {
  arguments.insert(arguments.begin(), "run");
  Job job(arguments, variables);
  JobResult result = job.finish();
  EXPECT_GE(job.wait_until_gone(), 0) << "a process is left";
  return result;
}

Lines ranks(int count, Lines more) {
  Lines arguments{"-n", std::to_string(count), rank_program()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Run, SucceedsSilentlyAtAnyWorldSize) {
  for (int n : {1, 2, 3, 5, 8}) {
    const JobResult result = run(ranks(n, {"place"}));
    EXPECT_EQ(result.exit_status, 0) << n;
    EXPECT_EQ(result.err, "") << n;
    EXPECT_EQ(lines_of(result.out).size(), static_cast<std::size_t>(n));
  }
}

TEST(Run, NamesTheRankThatExits) {
  const JobResult result = run(ranks(4, {"exit", "3", "2"}));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.err, "convoy run: rank 2 on host " + host_name() +
                            " exited with status 3; the other 3 ranks were ended\n");
}

TEST(Run, EndsWithALineOfItsOwn) {
  const JobResult result = run({"-n", "1", "sh", "-c", "printf 'no newline' >&2; exit 5"});
  EXPECT_EQ(result.err,
            "no newline\nconvoy run: rank 0 on host " + host_name() + " exited with status 5\n");
}

TEST(Run, PassesUsageErrorsAndRequeueOn) {
  EXPECT_EQ(run(ranks(2, {"exit", "2", "0"})).exit_status, 2);
  EXPECT_EQ(run({"-n", "2", "sh", "-c", "exit 75"}).exit_status, 75);
}

// The supervisor of its one rank has said that it is there; then comes more output than `convoy
// run` keeps unread, what the supervisor has said at its end, and more output.
constexpr const char* kMpirunWithOutput = R"(#!/bin/sh
if [ "$1" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit 0; fi
until [ "${1##*/}" = convoy-agent ]; do shift; done
"$@" 2> "$HERE/said" &
until [ -s "$HERE/said" ]; do sleep 0.01; done
head -n 1 "$HERE/said" >&2
head -c 2000000 /dev/zero | tr '\0' x >&2
wait $!
tail -n +2 "$HERE/said" >&2
head -c 2000000 /dev/zero | tr '\0' x >&2
)";

TEST(Run, JudgesRanksWhoseOutputNobodyReads) {
  const test::Scratch scratch;
  const std::string mpirun = scratch.path("mpirun");
  test::spill(mpirun, kMpirunWithOutput);
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  // It ends when it is told twice: by then the supervisor has been seen.
  Job job({"run", "--mpirun", mpirun, "-n", "1", "sh", "-c",
           "exec 2> /dev/null; n=0; trap 'n=$((n+1)); touch $HERE/told-$n; [ $n -lt 2 ] || exit "
           "75' USR1; "
           "while :; do sleep 0.02; done"},
          {"HERE=" + scratch.path()});
  const auto wait_until = [](const auto& condition) {
    const auto begin = Clock::now();
    while (!condition() && seconds_since(begin) < test::patience_s())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(condition());
  };
  const auto is_there = [&scratch](const char* name) {
    return [path = scratch.path(name)] { return std::filesystem::exists(path); };
  };
  wait_until(is_there("said"));
  for (const char* told : {"told-1", "told-2"}) {
    kill(job.pid(), SIGUSR1);
    wait_until(is_there(told));
  }
  wait_until([&job] { return job.processes().size() == 1; });
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 75) << last_line(result.err);
  EXPECT_EQ(result.err.find_first_not_of('x'), 4'000'000u) << last_line(result.err);
}

// A file that a shell takes for a script, and the kernel for nothing.
TEST(Run, ShowsTheCommandThatCannotBeStarted) {
  const test::Scratch scratch;
  const std::string mpirun = scratch.path("mpirun");
  test::spill(mpirun, "echo 'mpirun (Open MPI) 4.1.4'\n");
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  const JobResult result = run({"--verbose", "--mpirun", mpirun, "-n", "2", "true"});
  EXPECT_EQ(result.exit_status, 1);
  const Lines lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 2u) << result.err;
  EXPECT_NE(lines[0].find(mpirun + " --bind-to none"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], "convoy run: cannot start " + mpirun + ": Exec format error");
}

TEST(Run, NamesTheSignal) {
  const JobResult result = run(ranks(2, {"signal", "11", "1"}));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(last_line(result.err),
            "convoy run: rank 1 on host " + host_name() +
                " was killed by signal 11 (Segmentation fault); the other rank was ended");
}

TEST(Run, NamesTheRankThatAborts) {
  const JobResult result = run(ranks(3, {"abort", "7", "1"}));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_NE(last_line(result.err).find("convoy run: rank 1 on host " + host_name()),
            std::string::npos)
      << result.err;
  EXPECT_EQ(count(result.err, "MPI_ABORT was invoked"), 0) << result.err;
}

TEST(Run, CountsRanksThatHadFinished) {
  const test::Scratch scratch;
  Job job({"run", "-n", "3", "sh", "-c",
           "cd " + scratch.path() +
               "; r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; touch began-$r; [ $r = 0 ] || exit 0; "
               "until [ -e go ]; do sleep 0.01; done; exit 4"});
  // With the others their supervisors have ended, which say before that how they did.
  const auto finished = [&] {
    const std::vector<JobProcess> agents = job.processes("convoy-agent");
    return test::entries(scratch.path()) == 3 &&
           std::all_of(agents.begin(), agents.end(),
                       [](const JobProcess& agent) { return agent.rank == 0; });
  };
  const auto begin = Clock::now();
  bool all = false;
  while (!(all = finished()) && seconds_since(begin) < test::patience_s())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(all);
  test::spill(scratch.path("go"), "");
  const JobResult result = job.finish();
  EXPECT_GE(job.wait_until_gone(), 0) << "a process is left";
  EXPECT_EQ(last_line(result.err), "convoy run: rank 0 on host " + host_name() +
                                       " exited with status 4; the other 2 ranks had finished");
}

TEST(Run, KeepsEveryLine) {
  constexpr int kRanks = 3;
  constexpr int kLines = 100000;
  const test::Scratch scratch;
  const std::string logs = scratch.path("logs");
  for (bool with_logs : {false, true}) {
    Lines arguments = ranks(kRanks, {"lines", std::to_string(kLines)});
    if (with_logs) arguments.insert(arguments.begin(), {"--logs", logs});
    const JobResult result = run(arguments);
    EXPECT_EQ(result.exit_status, 0);
    std::size_t out_bytes = 0;
    std::size_t err_bytes = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int i = 0; i < kLines; ++i) {
        out_bytes += std::string("out 0  the quick brown fox jumps over the lazy dog\n").size() +
                     std::to_string(i).size();
        if (i % 10 == 0)
          err_bytes += std::string("err 0  ------\n").size() + std::to_string(i).size();
      }
    }
    // mpirun forwards blocks, which end anywhere: on the terminal one rank's line may stand within
    // another's.
    EXPECT_EQ(result.out.size(), out_bytes);
    EXPECT_EQ(result.err.size(), err_bytes);
    int odd = 0;
    for (int rank = 0; with_logs && rank < kRanks; ++rank) {
      std::ifstream log(logs + "/rank-" + std::to_string(rank) + ".log");
      int next_out = 0;
      int next_err = 0;
      for (std::string line; std::getline(log, line);) {
        int found_rank = -1;
        int number = -1;
        if (std::sscanf(line.c_str(), "out %d %d the", &found_rank, &number) == 2)
          odd += number != next_out++;
        else if (std::sscanf(line.c_str(), "err %d %d ---", &found_rank, &number) == 2)
          odd += number != 10 * next_err++;
        odd += found_rank != rank;
      }
      EXPECT_EQ(next_out, kLines);
      EXPECT_EQ(next_err, kLines / 10);
    }
    EXPECT_EQ(odd, 0);
  }
}

TEST(Run, LabelsLines) {
  const JobResult result = run({"--label", "-n", "2", "sh", "-c", "echo one; printf two"});
  for (const char* line : {"[0] one\n", "[1] one\n", "[0] two", "[1] two"})
    EXPECT_EQ(count(result.out, line), 1) << line;
}

TEST(Run, PlacesRanksOnCoresOfTheirOwn) {
  const std::size_t cores = usable_cores().size();
  for (int n : {1, 2, 4}) {
    const JobResult result = run(ranks(n, {"place"}));
    std::set<std::string> places;
    for (const std::string& line : lines_of(result.out)) {
      const std::size_t share = std::max<std::size_t>(1, cores / static_cast<std::size_t>(n));
      EXPECT_NE(line.find("threads " + std::to_string(share) + " "), std::string::npos) << line;
      places.insert(line.substr(line.find("cores")));
    }
    const bool even = cores % static_cast<std::size_t>(n) == 0;
    EXPECT_EQ(places.size(), even ? static_cast<std::size_t>(n) : 1u) << result.out;
  }
  EXPECT_EQ(count(run(ranks(2, {"place"}), {"OMP_NUM_THREADS=7"}).out, "threads 7 "), 2);
  Lines arguments = ranks(2, {"place"});
  arguments.insert(arguments.begin(), {"--threads", "3", "--bind", "none"});
  EXPECT_EQ(count(run(arguments, {"OMP_NUM_THREADS=7"}).out, "threads 3 "), 2);
}

TEST(Run, TakesHosts) {
  const JobResult result = run({"--hosts", "localhost:2", rank_program(), "place"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.out, "rank "), 2);
  EXPECT_EQ(count(run({"-n", "3", "--hosts", "localhost:2", rank_program(), "place"}).out, "rank "),
            3);
}

TEST(Run, SaysThatAProgramCannotStart) {
  // Only the supervisors can tell when hosts are named.
  const JobResult result = run({"-n", "2", "--hosts", "localhost:2", "/nowhere/program"});
  EXPECT_EQ(result.exit_status, 127);
  EXPECT_NE(result.err.find("cannot start '/nowhere/program': No such file or directory\n"),
            std::string::npos);
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
}

TEST(Run, RefusesBadCommandLinesInOneLine) {
  const std::vector<std::pair<Lines, std::string>> cases = {
      {{"-n", "2", "no-such-program"}, "there is no program 'no-such-program'"},
      {{"-n", "2", "./no-such-program"}, "does not exist"},
      {{"-n", "2", "/tmp"}, "is a folder"},
      {{"-n", "-3", "true"}, "-n -3"},
      {{"-n", "two", "true"}, "-n two"},
      {{"-n", "2"}, "which program"},
      {{"true"}, "how many ranks"},
      {{"-n", "2", "--hosts", "a:0,b:2", "true"}, "'0' is not a number"},
      {{"-n", "2", "--hosts", "a,,b", "true"}, "not a host"},
      {{"-n", "2", "--hostfile", "/nowhere", "true"}, "no such file"},
      {{"-n", "2", "--logs", "/proc/logs", "true"}, "--logs /proc/logs"},
      {{"-n", "2", "--mpirun", "/nowhere/mpirun", "true"}, "install the package"},
      {{"-n", "2", "--bind", "sockets", "true"}, "cores or none"},
      {{"-n", "2", "--threads", "0", "true"}, "--threads 0"},
      {{"-n", "2", "--timeout", "-1", "true"}, "--timeout"},
      {{"--thread", "2", "-n", "2", "true"}, "did you mean --threads?"}};
  for (const auto& [arguments, part] : cases) {
    const JobResult result = run(arguments);
    EXPECT_EQ(result.exit_status, 2) << part << "\n" << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  }
}

TEST(Run, PassesArgumentsAndOptionsOfTheProgramOn) {
  EXPECT_EQ(run({"-n", "1", "--", "sh", "-c", "echo $0 $1", "--logs", "-n"}).out, "--logs -n\n");
  EXPECT_EQ(run({"-n", "1", "echo", "--", "--threads", "x y"}).out, "-- --threads x y\n");
  EXPECT_EQ(run({"-n", "1", "--timeout", "12.5", "sh", "-c", "echo $CONVOY_TIMEOUT"}).out,
            "12.5\n");
}

}  // namespace
}  // namespace convoy::cli
