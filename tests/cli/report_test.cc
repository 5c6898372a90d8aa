// convoy report, on runs as users make them.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

class ReportCommand : public Train {
 protected:
  std::vector<std::string> some_steps(int ranks, const std::string& run, int steps,
                                      std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"--set", "training.epochs=0", "--set", "training.steps=" + std::to_string(steps)});
    return command(ranks, run, more);
  }
  static std::string slurp(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(ReportCommand, OfRunsThatEndedAndOneThatGoesOn) {
  take_trained_run("two");
  const JobResult one = Job({"report", folder_ + "/two"}).finish();
  ASSERT_EQ(one.exit_status, 0) << one.err;
  EXPECT_TRUE(has(one.out, folder_ + "/two/report.html")) << one.out;
  const std::string page = slurp(folder_ + "/two/report.html");
  EXPECT_TRUE(has(page, "done, 20 steps"));
  EXPECT_TRUE(has(slurp(folder_ + "/two/metrics.jsonl"), "\"how\": \"done\""));
  EXPECT_TRUE(has(page, "recipes/lenet-mnist.toml -n 2 --set"));  // the exact command
  EXPECT_TRUE(has(page, "Phases by rank"));
  EXPECT_TRUE(has(page, "convoy 0."));
  EXPECT_TRUE(has(page, "LibTorch"));

  Job running(some_steps(1, "on", kEndless, {"--set", "checkpoint.every_epochs=0"}));
  ASSERT_TRUE(wait_for_step("on", 12));
  const JobResult both = Job({"report", folder_ + "/two", folder_ + "/on", "-o",
                              folder_ + "/both.html", "--json", "-"})
                             .finish();
  ASSERT_EQ(both.exit_status, 0) << both.err;
  EXPECT_TRUE(has(both.err, folder_ + "/both.html"));
  std::map<std::string, std::vector<nlohmann::json>> figures;
  std::istringstream lines(both.out);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    figures[row["kind"]].push_back(row);
  }
  ASSERT_EQ(figures["run"].size(), 2u);
  EXPECT_EQ(figures["run"][0]["run"], "two");
  EXPECT_EQ(figures["run"][0]["state"], "done");
  EXPECT_EQ(figures["run"][0]["steps"], kTrainedSteps);
  EXPECT_EQ(figures["run"][0]["ranks"], 2);
  EXPECT_TRUE(figures["run"][0]["final"].contains("top1"));
  EXPECT_EQ(figures["run"][1]["state"], "going_on");
  EXPECT_TRUE(figures["run"][1]["best"].is_null());
  ASSERT_EQ(figures["speed_up"].size(), 2u);
  EXPECT_EQ(figures["speed_up"][0]["run"], "on");
  EXPECT_EQ(figures["speed_up"][1]["ideal"], 2);
  EXPECT_FALSE(figures["level"].empty());
  EXPECT_TRUE(has(slurp(folder_ + "/both.html"), "going on, "));
  EXPECT_TRUE(has(slurp(folder_ + "/both.html"), "Scaling of lenet"));
  kill(running.pid(), SIGKILL);
  ASSERT_GE(running.wait_until_gone(), 0);
  ASSERT_EQ(Job({"report", folder_ + "/on"}).finish().exit_status, 0);
  const std::string killed = slurp(folder_ + "/on/report.html");
  EXPECT_TRUE(has(killed, "stopped, failed or killed"));
  EXPECT_TRUE(has(killed, "no checkpoint was written"));
}

TEST_F(ReportCommand, Refusals) {
  const auto refused = [](const std::vector<std::string>& words, int status,
                          const std::string& text, const std::vector<std::string>& variables = {}) {
    const JobResult result = Job(words, variables).finish();
    EXPECT_EQ(result.exit_status, status) << result.err;
    EXPECT_TRUE(has(result.err, text)) << result.err;
  };
  const std::string run = folder_ + "/run";
  fs::create_directories(run);
  refused({"report"}, 2, "which run? Name its folder");
  refused({"report", folder_ + "/nowhere"}, 2, "there is no folder " + folder_ + "/nowhere");
  refused({"report", run}, 2, "is no run: it has neither metrics.jsonl nor recipe.toml");
  std::ofstream(run + "/metrics.jsonl")
      << "{\"kind\": \"step\", \"step\": 1, \"loss\": 1, \"epoch\": 1}\n"
         "{\"kind\": \"step\", \"step\": 2, \"loss\": 1, \"epoch\": 2}\n";
  refused({"report", run, "-o", folder_}, 2, "it is a folder");
  refused({"report", run, "-o", folder_ + "/none/a.html"}, 2, "--output: can't write");
  refused({"report", run}, 1, "gnuplot-nox", {"PATH=/nowhere"});
  // What the run consists of is not written over.
  const std::string metrics = slurp(run + "/metrics.jsonl");
  refused({"report", run, "-o", run + "/metrics.jsonl"}, 2,
          "is there, and is not a page of convoy report");
  refused({"report", run, "--json", run + "/metrics.jsonl"}, 2, "--json: " + run);
  refused({"report", run, "--json", folder_}, 2, "--json: can't write");
  EXPECT_EQ(slurp(run + "/metrics.jsonl"), metrics);
  // Its figures need no gnuplot.
  refused({"report", run, "--json", folder_ + "/figures"}, 1, "gnuplot-nox", {"PATH=/nowhere"});
  EXPECT_TRUE(has(slurp(folder_ + "/figures"), "\"steps\":2"));
  const std::string fake = folder_ + "/bin";
  fs::create_directories(fake);
  std::ofstream(fake + "/gnuplot") << "#!/bin/sh\nkill -9 $$\n";
  fs::permissions(fake + "/gnuplot", fs::perms::owner_all);
  refused({"report", run}, 1, "gnuplot was ended by signal 9 (Killed)", {"PATH=" + fake});
  EXPECT_FALSE(fs::exists(run + "/report.html"));
  // Nothing is put anywhere on the way; a report replaces one.
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Job({"report", run}, {"TMPDIR=/nowhere"}).finish().exit_status, 0);
}

// A rank that is stopped for most of the time, a moment at a time. After how many steps it is named
// depends on what else the machine does, and is a matter of slow_rank_test, which needs no clock.
TEST_F(ReportCommand, ASlowedRankIsNamedWithItsPhase) {
  Job job(some_steps(3, "slow", kEndless, {"--set", "threads=1"}));
  ASSERT_TRUE(wait_for_step("slow", 25));
  // The row that names a rank; the machine may be busy enough for others to be named.
  const auto named = [&](int rank) {
    std::istringstream lines(slurp(folder_ + "/slow/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (!row.is_discarded() && row["kind"] == "slow_rank" && row["rank"] == rank) return row;
    }
    return nlohmann::json();
  };
  // Not one that was named by itself: as long as it is slow it would not be named again.
  const int slowed = named(2).is_null() ? 2 : 1;
  pid_t rank = 0;  // and not the agent that watches over it
  for (const JobProcess& process : job.processes("convoy"))
    if (process.rank == slowed && process.name == "convoy") rank = process.pid;
  ASSERT_GT(rank, 0);
  std::atomic<bool> done{false};
  std::thread slowing([&] {
    while (!done) {
      kill(rank, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(95));
      kill(rank, SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto begin = Clock::now();
  while (named(slowed).is_null() && seconds_since(begin) < test::patience_s())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  done = true;
  slowing.join();
  kill(job.pid(), SIGTERM);
  const JobResult result = job.finish();
  const nlohmann::json row = named(slowed);
  ASSERT_FALSE(row.is_null()) << result.err << slurp(folder_ + "/slow/metrics.jsonl");
  EXPECT_TRUE(has(result.err, "rank " + std::to_string(slowed) + " on host ")) << result.err;
  EXPECT_TRUE(has(result.err, "most of it in " + row["phase"].get<std::string>())) << result.err;
}

}  // namespace
}  // namespace convoy::cli
