// The last moments of a job with strategy "downpour": all is trained, and not all has ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/base/patience.h"
#include "tests/cli/downpour_words.h"
#include "tests/cli/job.h"
#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

using Words = std::vector<std::string>;

pid_t role(const Job& job, const std::string& name, const std::string& its_name = "") {
  for (const JobProcess& process : job.processes("convoy")) {
    const Words& words = process.arguments;
    const bool has = std::find(words.begin(), words.end(), name) != words.end();
    const bool is =
        its_name.empty() || std::find(words.begin(), words.end(), its_name) != words.end();
    if (has && is) return process.pid;
  }
  return 0;
}

template <typename Condition>
void wait_until(const Condition& condition) {
  const auto begin = Clock::now();
  while (!condition() && seconds_since(begin) < test::patience_s())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(condition());
}

// The evaluator has ended the job; then `convoy train` is killed, while it waits for a replica.
// What is trained is trained: the job that goes on with the servers' own data says so, and is done.
// One command is for both.
TEST(DownpourEnd, IsFoundByTheNextJob) {
  const test::Scratch scratch;
  Words words = small_downpour(scratch.path("run"), {"training.steps=20", "downpour.replicas=2"});
  words.push_back("--resume=auto");
  {
    Job job(words);
    wait_until([&] { return role(job, "replica", "replica-1") != 0; });
    kill(role(job, "replica", "replica-1"), SIGSTOP);  // which is given up, and ends at last
    wait_until([&] { return role(job, "evaluator") != 0; });
    wait_until([&] { return role(job, "evaluator") == 0; });
    kill(job.pid(), SIGKILL);
    ASSERT_GE(job.wait_until_gone(test::patience_s()), 0);
    job.finish();
  }
  ASSERT_TRUE(std::filesystem::exists(scratch.path("run/server/job.json")));
  const JobResult next = Job(words).finish();
  EXPECT_EQ(next.exit_status, 0) << next.err;
  EXPECT_NE(next.out.find("the job is over: all is trained\n"), std::string::npos) << next.out;
  EXPECT_FALSE(std::filesystem::exists(scratch.path("run/server/job.json")));
  const JobResult eval = Job({"eval", scratch.path("run")}).finish();
  EXPECT_EQ(eval.exit_status, 0) << eval.err;
}

// As the documentation has them: no key but those of the recipe.
TEST(DownpourEnd, OfARecipeThatNamesNoFolderIsInRuns) {
  for (const std::string name : {"mnist-downpour", "mnist-softmax-sandblaster"}) {
    const JobResult result =
        Job({"train", test::source_folder() + "/recipes/" + name + ".toml", "--dry-run"}).finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    const std::string folder = std::filesystem::current_path() / "runs" / name;
    EXPECT_NE(result.out.find(folder + "/server/coordinator"), std::string::npos) << result.out;
  }
}

// A run that went on from another one's checkpoint, and was lost before its own first one: to begin
// from nothing would be another run, and the command that begins it again as it began is said.
TEST(DownpourEnd, OfALostRunSaysWhatItWentOnFrom) {
  const test::Scratch scratch;
  const std::string run = scratch.path("run"), origin = scratch.path("other/checkpoints/step-7");
  for (const std::string& folder : {run, origin}) std::filesystem::create_directories(folder);
  test::spill(run + "/metrics.jsonl", R"({"kind": "run", "step": 0, "resumed_from": ")" + origin +
                                          R"(", "working_folder": "/"})" + "\n");
  Words words = small_downpour(run, {"training.steps=20"});
  words.insert(words.end(), {"--resume=auto", "--dry-run"});
  const JobResult result = Job(words).finish();
  EXPECT_EQ(result.exit_status, 2) << result.out;
  EXPECT_EQ(result.err, "convoy train: --resume=auto: the run in " + run + " went on from " +
                            origin + ", and was lost before its first checkpoint; --resume " +
                            origin + " begins it again from there\n");
  EXPECT_EQ(test::entries(run), 1u);
}

// The lines that --dry-run shows, as a user types them: each in a terminal of its own, elsewhere.
void train_by_hand(Words words, const std::string& run) {
  words.push_back("--dry-run");
  const JobResult shown = Job(words).finish();
  ASSERT_EQ(shown.exit_status, 0) << shown.err;
  std::vector<std::unique_ptr<Job>> terminals;
  std::vector<std::string> typed;
  for (const std::string& line : lines_of(shown.out)) {
    if (line.starts_with("#")) continue;
    terminals.push_back(std::make_unique<Job>(Words{"-c", "cd /\n" + line}, Words{}, "/bin/sh"));
    typed.push_back(line);
  }
  ASSERT_GE(terminals.size(), 4u) << shown.out;
  for (const std::string role : {" evaluator ", " coordinator ", " replica "}) {
    for (std::size_t i = 0; i < terminals.size(); ++i) {
      if (typed[i].find(role) == std::string::npos) continue;
      const JobResult result = terminals[i]->finish();
      EXPECT_EQ(result.exit_status, 0) << typed[i] << "\n" << result.out << result.err;
    }
  }
  terminals.clear();
  const JobResult eval = Job({"eval", run}).finish();
  EXPECT_EQ(eval.exit_status, 0) << eval.err;
}

TEST(DownpourByHand, TrainsByTheLinesThatAreShown) {
  const test::Scratch scratch;
  const std::string run = scratch.path("a run");
  train_by_hand(small_downpour(run, {"training.steps=20", "downpour.replicas=2"}), run);
}

TEST(DownpourByHand, TrainsReplicasOfSeveralProcesses) {
  const test::Scratch scratch;
  const std::string run = scratch.path("run");
  train_by_hand(
      small_downpour(run, {"training.steps=20", "downpour.replicas=1", "grid.partitions=2",
                           "downpour.durability=none", "downpour.backups=false"}),
      run);
  // One process uses the whole, and as many as there were partitions use it divided.
  const JobResult divided = Job({"eval", run, "-n", "2"}).finish();
  EXPECT_EQ(divided.exit_status, 0) << divided.err;
}

}  // namespace
}  // namespace convoy::cli
