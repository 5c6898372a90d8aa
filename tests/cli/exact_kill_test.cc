// Deaths at exact points (src/base/hold.h): one of each kind of process. What was trained goes on
// to the same bits. Random moments are in kill_test.cc, job_kill_test.cc and tests/soak.
#include <unistd.h>

#include <csignal>

#include "convoy/base/system.h"
#include "tests/cli/exported.h"
#include "tests/cli/job_script.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

constexpr int kSteps = 12;

// Whoever waits at a point of CONVOY_TEST_HOLD.
class Held {
 public:
  explicit Held(const std::string& point) : point_(point) {}

  std::string variable() const { return "CONVOY_TEST_HOLD=" + point_ + "=" + file(); }

  // The process that has come to the point.
  pid_t wait() const {
    wait_until([this] { return fs::exists(file()); });
    std::ifstream said(file());
    pid_t pid = 0;
    said >> pid;
    return pid;
  }

 private:
  std::string file() const { return scratch_.path("held"); }

  std::string point_;
  test::Scratch scratch_;
};

bool strike(pid_t pid) { return pid > 0 && kill(pid, SIGKILL) == 0; }

// Of the processes that there were, nothing is left: neither they nor their shared memory.
void expect_nothing_left(const Job& job, const std::vector<JobProcess>& before) {
  EXPECT_GE(job.wait_until_gone(), 0) << "a process is left";
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    for (const JobProcess& process : before) {
      const std::string mark = "convoy." + std::to_string(process.pid) + ".";
      EXPECT_FALSE(entry.path().filename().string().starts_with(mark)) << entry.path();
    }
  }
}

class ExactKill : public Train {
 protected:
  // Each checkpoint has its name before the next update.
  std::vector<std::string> words(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.end(),
                {"--set", "checkpoint.every_steps=4", "--set", "checkpoint.asynchronous=false"});
    more.insert(more.end(), kRisingRates.begin(), kRisingRates.end());
    return of_steps(command(2, run, more), kSteps);
  }

  // What a training comes to that nobody disturbs; trained once for all tests.
  static const std::vector<std::byte>& whole() {
    static const std::vector<std::byte> model = [] {
      class Whole : public ExactKill {
       public:
        void TestBody() override {}
        std::vector<std::byte> train() {
          const auto result = Job(words("whole")).finish();
          EXPECT_EQ(result.exit_status, 0) << result.err;
          return exported_model(folder_ + "/whole");
        }
      };
      return Whole().train();
    }();
    return model;
  }

  // A training whose process `victim` names, given who is held, dies when one is held at the point.
  template <class Victim>
  JobResult killed_at(const std::string& point, const Victim& victim) {
    const Held held(point);
    Job job(words("run"), {held.variable()});
    const pid_t waiting = held.wait();
    EXPECT_GT(waiting, 0);
    const auto before = job.processes();
    EXPECT_TRUE(strike(victim(job, waiting)));
    JobResult result = job.finish();
    expect_nothing_left(job, before);
    return result;
  }

  static pid_t the_one_held(const Job&, pid_t held) { return held; }

  // The run, started again with this option, comes to the same weights.
  void expect_same_bits(const std::string& option, const std::string& said) {
    const auto again = Job(words("run", {option})).finish();
    ASSERT_EQ(again.exit_status, 0) << again.err;
    EXPECT_NE(again.out.find(said), std::string::npos) << again.out;
    EXPECT_TRUE(exported_model(folder_ + "/run") == whole());
  }

  static void expect_named(const JobResult& result, int rank) {
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_NE(
        last_line(result.err).find("rank " + std::to_string(rank) + " on host " + host_name()),
        std::string::npos)
        << result.err;
  }
};

TEST_F(ExactKill, ARankBeforeItsFirstUpdate) {
  const JobResult result = killed_at("start:1@1", the_one_held);
  expect_named(result, 1);
  EXPECT_NE(result.err.find("killed by signal 9"), std::string::npos) << result.err;
  expect_same_bits("--resume=auto", "");
}

// No death: there is nothing yet to be saved, and nothing is left.
TEST_F(ExactKill, ToldToStopDuringSetUp) {
  const Held held("setup:1@0");
  Job job(words("run"), {held.variable()});
  EXPECT_GT(held.wait(), 0);
  const auto before = job.processes();
  kill(job.pid(), SIGTERM);
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_NE(result.err.find("told to stop before the first update"), std::string::npos)
      << result.err;
  expect_nothing_left(job, before);
  EXPECT_FALSE(fs::exists(folder_ + "/run/metrics.jsonl"));
}

// Which is further than the one that is told: nobody waits for it in vain.
TEST_F(ExactKill, OneOfThreeRanksIsToldToStopDuringSetUp) {
  const Held held("setup:1@0");
  Job job(of_steps(command(3, "run"), kSteps), {held.variable()});
  EXPECT_GT(held.wait(), 0);
  const auto before = job.processes();
  ASSERT_EQ(kill(rank_process(job, 2), SIGUSR1), 0);
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_EQ(count(result.err, "told to stop before the first update"), 1) << result.err;
  expect_nothing_left(job, before);
  EXPECT_FALSE(fs::exists(folder_ + "/run/metrics.jsonl"));
}

TEST_F(ExactKill, ARankInAnAllreduce) {
  // Gradients travel in two buckets: this is in the sixth update.
  const JobResult result = killed_at("allreduce:11@1", the_one_held);
  expect_named(result, 1);
  EXPECT_NE(result.err.find("killed by signal 9"), std::string::npos) << result.err;
  expect_same_bits("--resume", "resumed after step 4");
}

TEST_F(ExactKill, ARankWhoseCheckpointHasNoNameYet) {
  expect_named(killed_at("checkpoint.write:2", the_one_held), 0);
  expect_same_bits("--resume", "resumed after step 4");
}

TEST_F(ExactKill, ARankWhoseCheckpointHasJustGotItsName) {
  expect_named(killed_at("checkpoint.name:2", the_one_held), 0);
  expect_same_bits("--resume", "resumed after step 8");
}

TEST_F(ExactKill, TheLauncherOfRanksThatTrain) {
  const JobResult result = killed_at("step:6@0", [](const Job& job, pid_t) { return job.pid(); });
  EXPECT_EQ(result.exit_status, 128 + SIGKILL);
  expect_same_bits("--resume", "resumed after step 4");
}

TEST_F(ExactKill, TheSupervisorOfARankThatTrains) {
  const JobResult result = killed_at("step:6@1", [](const Job& job, pid_t) {
    for (const JobProcess& process : job.processes("convoy-agent"))
      if (process.rank == 1) return process.pid;
    return pid_t{0};
  });
  expect_named(result, 1);
  expect_same_bits("--resume", "resumed after step 4");
}

TEST(ExactKillOfRanks, ALauncherThatKnowsOfNoRankYet) {
  const Held held("launch");
  Job job({"run", "-n", "2", rank_program(), "work"}, {held.variable()});
  EXPECT_EQ(held.wait(), job.pid());
  const auto before = job.processes();
  ASSERT_TRUE(strike(job.pid()));
  EXPECT_EQ(job.finish().exit_status, 128 + SIGKILL);
  expect_nothing_left(job, before);
}

TEST(ExactKillOfRanks, ASupervisorThatHasToldNothing) {
  const Held held("supervise:1@1");
  Job job({"run", "-n", "2", rank_program(), "work"}, {held.variable()});
  ASSERT_TRUE(strike(held.wait()));
  const auto before = job.processes();
  EXPECT_EQ(job.finish().exit_status, 1);
  expect_nothing_left(job, before);
}

TEST(ExactKillOfRoles, AJobThatHasStartedOneOfThree) {
  const Held held("job.start");
  JobOfRoles job(service("a") + service("b") + role("c", "sleep 1000"), {held.variable()});
  EXPECT_EQ(held.wait(), job->pid());
  const auto before = job->processes();
  ASSERT_TRUE(strike(job->pid()));
  EXPECT_EQ(job->finish().exit_status, 128 + SIGKILL);
  expect_nothing_left(*job, before);
  EXPECT_EQ(test::entries(job.temporary()), 0u);
}

}  // namespace
}  // namespace convoy::cli
