// Checkpoints of convoy train as users meet them: killed, damaged, exported, on a disk that is
// full.
#include <unistd.h>

#include <csignal>

#include "tests/cli/exported.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

TEST_F(Train, KilledAndResumedToTheSameBits) {
  auto often = kOften;
  often.insert(often.end(), kRisingRates.begin(), kRisingRates.end());
  const int at = random_between(10, 70);
  {
    Job job(of_steps(command(3, "killed", often), kEndless));
    ASSERT_TRUE(wait_for_step("killed", at));
    ASSERT_TRUE(wait_for_a_checkpoint("killed"));
    const pid_t victim = rank_process(job, random_between(0, 2));
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_NE(result.err.find("killed by signal 9"), std::string::npos) << result.err;
  }
  // However far it came before it died: another goes as far at once.
  const int enough = steps("killed") + 20;
  auto again = often;
  again.push_back("--resume");
  const auto resumed = Job(of_steps(command(3, "killed", again), enough)).finish();
  ASSERT_EQ(resumed.exit_status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed after step"), std::string::npos) << resumed.out;
  const auto whole = Job(of_steps(command(3, "whole", often), enough)).finish();
  ASSERT_EQ(whole.exit_status, 0) << whole.err;
  EXPECT_TRUE(exported_model(folder_ + "/killed") == exported_model(folder_ + "/whole"))
      << "killed at step " << at;
}

// Each time while a checkpoint is being written: the one before opens, and training goes on from
// it.
TEST_F(Train, KilledWhileACheckpointIsWritten) {
  std::vector<std::string> often{"--set", "checkpoint.every_steps=1"};
  often.insert(often.end(), kRisingRates.begin(), kRisingRates.end());
  const std::string checkpoints = folder_ + "/killed/checkpoints";
  const auto partial = [&checkpoints] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
      if (entry.path().filename().string().starts_with(".partial-step")) return true;
    }
    return false;
  };
  for (int kills = 0; kills < 3; ++kills) {
    auto words = often;
    if (kills > 0) words.push_back("--resume");
    const int before = steps("killed");
    Job job(of_steps(command(2, "killed", words), kEndless));
    ASSERT_TRUE(wait_for_step("killed", before + 5));
    ASSERT_TRUE(wait_for_a_checkpoint("killed"));
    for (int i = 0; i < 30000 && !partial(); ++i)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    const pid_t victim = rank_process(job, kills % 2);
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_EQ(job.finish().exit_status, 1);
    EXPECT_FALSE(exported_model(folder_ + "/killed").empty());
  }
  const int enough = steps("killed") + 20;
  auto again = often;
  again.push_back("--resume");
  const auto resumed = Job(of_steps(command(2, "killed", again), enough)).finish();
  ASSERT_EQ(resumed.exit_status, 0) << resumed.err;
  const auto whole = Job(of_steps(command(2, "whole", often), enough)).finish();
  ASSERT_EQ(whole.exit_status, 0) << whole.err;
  EXPECT_TRUE(exported_model(folder_ + "/killed") == exported_model(folder_ + "/whole"));
  EXPECT_FALSE(partial());
}

TEST_F(Train, ADamagedCheckpointIsRefusedAndTheOneBeforeOffered) {
  take_trained_run("run");
  const std::string damaged = newest("run");
  std::fstream file(damaged + "/part-0.safetensors", std::ios::in | std::ios::out);
  file.seekp(100000);
  file.put('x');
  file.close();
  auto words = of_steps(command(1, "run", kOften), kTrainedSteps);
  words.push_back("--resume");
  const JobResult result = Job(words).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("part-0.safetensors is damaged: the checksum of "), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("step-000000000018"), std::string::npos) << result.err;
}

// One by time, which is due after every update, is written for as long as the others take.
TEST_F(Train, ACheckpointThatTakesLongNeverMakesTrainingWait) {
  const std::string held = folder_ + "/held";
  auto words = of_steps(command(1, "run", {"--set", "checkpoint.every_minutes=0.0000001"}), 30);
  Job job(words, {"CONVOY_TEST_HOLD=checkpoint.write=" + held});
  EXPECT_TRUE(wait_for_step("run", 30));
  EXPECT_TRUE(fs::exists(held));
  fs::remove(held);
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

// A file system that is full: what was written before stays usable.
TEST_F(Train, DiskFull) {
  const std::string disk = folder_ + "/disk";
  const test::SmallDisk small(disk, 6 << 20);
  if (!small.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << small.why_not();
  std::vector<std::string> more = kOften;
  const JobResult result = Job(command(2, "disk/run", more)).finish();
  EXPECT_EQ(result.exit_status, 1) << result.out;
  EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("step-000000000009"), std::string::npos) << result.err;
  std::size_t left = 0;
  for (const auto& entry : fs::directory_iterator(disk + "/run/checkpoints")) {
    EXPECT_EQ(entry.path().filename(), "step-000000000009");
    ++left;
  }
  EXPECT_EQ(left, 1u);
  EXPECT_EQ(Job({"eval", disk + "/run"}).finish().exit_status, 0);
}

TEST_F(Train, ExportSaysWhatIsWrong) {
  const auto refusal = [](const std::vector<std::string>& words) {
    const JobResult result = Job(words).finish();
    EXPECT_EQ(result.exit_status, 2) << result.out;
    return result.err;
  };
  EXPECT_NE(refusal({"export", folder_ + "/none", folder_ + "/w"})
                .find("convoy export: " + folder_ + "/none is no run folder"),
            std::string::npos);
  fs::create_directories(folder_ + "/empty/checkpoints");
  EXPECT_NE(
      refusal({"export", folder_ + "/empty", folder_ + "/w"}).find("there is no checkpoint in"),
      std::string::npos);
  take_trained_run("run");
  const auto exported = exported_model(folder_ + "/run");
  EXPECT_NE(refusal({"export", folder_ + "/run", folder_ + "/run.safetensors"}).find("--overwrite"),
            std::string::npos);
  const JobResult row = Job({"export", folder_ + "/run", folder_ + "/w", "--json", "-"}).finish();
  const auto json = nlohmann::json::parse(row.out);
  EXPECT_EQ(json["bytes"], exported.size());
  EXPECT_EQ(json["tensors"], 8);
  // As the start of another training.
  auto words = of_steps(command(1, "next"), 2);
  words.insert(words.end(), {"--set", "model.weights=" + folder_ + "/w"});
  EXPECT_EQ(Job(words).finish().exit_status, 0);
}

}  // namespace
}  // namespace convoy::cli
