// convoy train as users run it: processes that are killed, told to stop, and resumed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "tests/base/scratch.h"
#include "tests/cli/exported.h"
#include "tests/cli/job.h"
#include "tests/cli/sample_log.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

constexpr int kRequeue = 75;

// The ranks as mpirun starts them: `convoy run` alone would set OMP_NUM_THREADS.
TEST_F(Train, RanksThatMpirunStartsShareTheCores) {
  const auto threads = [this](const std::string& run, const std::vector<std::string>& words) {
    std::vector<std::string> job{"run",  "-n",  "3",  "--bind",
                                 "none", "env", "-u", "OMP_NUM_THREADS"};
    job.insert(job.end(), words.begin(), words.end());
    job.push_back(convoy_program());
    for (const std::string& word :
         command(3, run, {"--set", "training.epochs=0", "--set", "training.steps=1"}))
      job.push_back(word);
    const JobResult result = Job(job).finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    std::ifstream file(folder_ + "/" + run + "/metrics.jsonl");
    std::string line;
    std::getline(file, line);
    return nlohmann::json::parse(line).at("threads_per_rank").get<int>();
  };
  EXPECT_EQ(threads("share", {}), std::max(1, static_cast<int>(usable_cores().size()) / 3));
  EXPECT_EQ(threads("wish", {"OMP_NUM_THREADS=4"}), 4);
}

// Different algorithms add in different orders; that shows in the last bits, unless sums are asked
// to be reproducible.
TEST_F(Train, ReproducibleSumsDoNotDependOnTheAlgorithm) {
  const auto model = [&](const std::string& run, const std::string& algorithm, bool reproducible) {
    const std::string value = reproducible ? "true" : "false";
    const auto result = Job(command(3, run,
                                    {"--set", "training.epochs=0", "--set", "training.steps=20",
                                     "--set", "sync.reproducible=" + value}),
                            {"CONVOY_ALLREDUCE=" + algorithm})
                            .finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return exported_model(folder_ + "/" + run);
  };
  EXPECT_TRUE(model("a", "ring-rsag", true) == model("b", "recursive-doubling", true));
  EXPECT_FALSE(model("c", "ring-rsag", false) == model("d", "recursive-doubling", false));
}

TEST_F(Train, StoppedOnFourResumedOnTwoAndThree) {
  const auto with_epochs = [](int epochs, bool resume) {
    std::vector<std::string> more{"--set", "output.log_samples=true", "--set",
                                  "training.epochs=" + std::to_string(epochs)};
    if (resume) more.push_back("--resume");
    return more;
  };
  const auto stop_at = [&](int ranks, int step, const std::vector<std::string>& with) {
    Job job(command(ranks, "run", with));
    ASSERT_TRUE(wait_for_step("run", step));
    kill(job.pid(), SIGTERM);
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, kRequeue) << result.err;
    EXPECT_NE(result.out.find("stopped after"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("--resume"), std::string::npos) << result.out;
  };
  stop_at(4, random_between(5, 40), with_epochs(kEndless, false));
  stop_at(2, steps("run") + random_between(5, 90), with_epochs(kEndless, true));
  // The one that goes on decides where all ends: at the end of an epoch.
  constexpr int kStepsOfAnEpoch = 100, kSamples = 10000;
  const int epochs = std::max(2, steps("run") / kStepsOfAnEpoch + 1);
  const auto last = Job(command(3, "run", with_epochs(epochs, true))).finish();
  ASSERT_EQ(last.exit_status, 0) << last.err;

  const auto seen = read_sample_log(folder_ + "/run").times;
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(epochs) * kSamples);
  for (const auto& [sample, times] : seen)
    ASSERT_EQ(times, 1) << sample.first << " " << sample.second;
}

TEST_F(Train, EvaluationIsTheSameOnAnyNumberOfRanks) {
  take_trained_run("run");
  std::vector<double> right;  // of as many, so exactly the same part
  for (const char* ranks : {"1", "2", "3"}) {
    const JobResult result =
        Job({"eval", folder_ + "/run", "-n", ranks, "--json", "-", "--set", "evaluation.batch=999"})
            .finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
    const auto row = nlohmann::json::parse(result.out);
    EXPECT_EQ(row["samples"], 10000);
    right.push_back(row["top1"]);
  }
  EXPECT_GT(right[0], 0.5);
  EXPECT_EQ(right[1], right[0]);
  EXPECT_EQ(right[2], right[0]);
}

TEST_F(Train, RanksWithDifferentRecipes) {
  const char* binary = std::getenv("CONVOY_BINARY_DIR");
  ASSERT_NE(binary, nullptr);
  std::string line = std::string(binary) + "/bin/convoy";
  std::vector<std::string> words = command(1, "run");
  words.erase(std::find(words.begin(), words.end(), "-n"),
              std::find(words.begin(), words.end(), "-n") + 2);
  for (const std::string& word : words) line += " " + word;
  line += " --set seed=1$OMPI_COMM_WORLD_RANK$PMI_RANK";
  const JobResult result = Job({"run", "-n", "2", "--", "sh", "-c", line}).finish();
  EXPECT_EQ(result.exit_status, 2) << result.err;
  EXPECT_NE(result.err.find("seed is 11, on rank 0 it is 10"), std::string::npos) << result.err;
}

TEST_F(Train, PicturesThatCannotBeDecoded) {
  const std::string good = source_ + "/tests/data/fixtures/color420.jpg";
  for (const char* label : {"cat", "dog"}) {
    fs::create_directories(folder_ + "/pictures/" + label);
    for (int i = 0; i < 4; ++i) {
      fs::copy_file(good, folder_ + "/pictures/" + label + "/" + std::to_string(i) + ".jpg");
    }
  }
  // The first record, from which shapes are taken.
  const std::string bad = folder_ + "/pictures/cat/0.jpg";
  fs::resize_file(bad, fs::file_size(bad) / 2);
  std::ofstream(folder_ + "/r.toml") << R"(
[model]
name = "resnet18"
[data]
reader = "image_folder"
size = 64
channels = 3
[data.train]
path = "pictures"
[data.augment]
crop = "random_resized"
[training]
batch = 4
epochs = 2
)";
  const std::vector<std::string> words{"train",
                                       folder_ + "/r.toml",
                                       "-n",
                                       "2",
                                       "--overwrite",
                                       "--set",
                                       "output.folder=" + folder_ + "/run"};
  const JobResult failed = Job(words).finish();
  EXPECT_EQ(failed.exit_status, 2) << failed.err;
  EXPECT_NE(failed.err.find(bad), std::string::npos) << failed.err;
  auto skipping = words;
  skipping.insert(skipping.end(), {"--set", "data.on_bad=skip"});
  const JobResult skipped = Job(skipping).finish();
  EXPECT_EQ(skipped.exit_status, 0) << skipped.err;
  EXPECT_NE(skipped.err.find(bad), std::string::npos) << skipped.err;

  const JobResult predicted = Job({"predict", folder_ + "/run", good, bad, "--json", "-"}).finish();
  EXPECT_EQ(predicted.exit_status, 2);
  EXPECT_NE(predicted.err.find(bad), std::string::npos) << predicted.err;
  std::istringstream lines(predicted.out);
  std::string first;
  std::getline(lines, first);
  const auto row = nlohmann::json::parse(first);
  EXPECT_EQ(row["classes"].size(), 2u);
  EXPECT_EQ(row["classes"][0]["name"].get<std::string>().size(), 3u);

  fs::create_directories(folder_ + "/pictures/empty");
  const JobResult empty = Job(words).finish();
  EXPECT_EQ(empty.exit_status, 2);
  EXPECT_NE(empty.err.find("empty"), std::string::npos) << empty.err;
}

TEST_F(Train, MistakesThatRanksFindAreSaidOnce) {
  take_trained_run("run");
  const JobResult again = Job(of_steps(command(3, "run"), kTrainedSteps)).finish();
  EXPECT_EQ(again.exit_status, 2);
  EXPECT_EQ(count(again.err, "holds a run already"), 1) << again.err;
  EXPECT_EQ(count(again.err, "\n"), 2) << again.err;  // and the launcher's line

  const JobResult size = Job({"eval", folder_ + "/run", "--set", "data.size=32"}).finish();
  EXPECT_EQ(size.exit_status, 2);
  EXPECT_NE(size.err.find("the model 'lenet' can't take images of 1 x 32 x 32; it is made for 1 x "
                          "28 x 28"),
            std::string::npos)
      << size.err;
  // A colored picture of another size is made to fit.
  const std::string picture = source_ + "/tests/data/fixtures/color420.jpg";
  const JobResult predicted = Job({"predict", folder_ + "/run", picture}).finish();
  EXPECT_EQ(predicted.exit_status, 0) << predicted.err;
}

// The run at work is not disturbed; killed, it is no obstacle.
TEST_F(Train, OneRunAtATimeInAFolder) {
  const std::vector<std::string> more = of_steps(kOften, kEndless);
  {
    Job job(command(2, "run", more));
    ASSERT_TRUE(wait_for_step("run", 12));
    const auto owner = nlohmann::json::parse(read_text_file(folder_ + "/run/lock"))["pid"];
    for (const char* way : {"", "--resume", "--overwrite"}) {
      auto words = command(*way == '-' ? 1 : 2, "run", more);
      if (*way != '\0') words.push_back(way);
      const JobResult second = Job(words).finish();
      EXPECT_EQ(second.exit_status, 2) << way << second.err;
      EXPECT_NE(second.err.find(folder_ + "/run is in use by '"), std::string::npos) << second.err;
      EXPECT_NE(second.err.find("(process " + owner.dump() + " on host "), std::string::npos)
          << second.err;
    }
    const int before = steps("run");
    EXPECT_TRUE(wait_for_step("run", before + 5));
    ASSERT_TRUE(wait_for_a_checkpoint("run"));
    kill(owner.get<pid_t>(), SIGKILL);
    EXPECT_EQ(job.finish().exit_status, 1);
  }
  const std::string enough = "training.steps=" + std::to_string(steps("run") + 2);
  auto words = command(1, "run", {"--set", "training.epochs=0", "--set", enough, "--resume"});
  const JobResult result = Job(words).finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_FALSE(fs::exists(folder_ + "/run/lock"));
}

TEST_F(Train, FoldersOfRuns) {
  const std::vector<std::string> few{"--set", "training.epochs=0", "--set", "training.steps=2"};
  const auto train_in = [&](const std::string& folder) {
    auto words = command(1, "run", few);
    words.insert(words.end(), {"--set", "output.folder=" + folder});
    return Job(words).finish();
  };
  const JobResult impossible = train_in("/proc/none");
  EXPECT_EQ(impossible.exit_status, 2);
  EXPECT_NE(impossible.err.find("cannot make the run folder /proc/none"), std::string::npos)
      << impossible.err;
  // A name that is a number in TOML.
  fs::current_path(folder_);
  EXPECT_EQ(train_in("nan").exit_status, 0);
  EXPECT_TRUE(fs::exists(folder_ + "/nan/metrics.jsonl"));
  fs::current_path("/");
}

// As some daemons start programs: nothing of what is printed gets into files of the run.
TEST_F(Train, StandardStreamsMayBeClosed) {
  std::string line = "exec " + convoy_program();
  for (const std::string& word : of_steps(command(1, "run"), 4)) line += " '" + word + "'";
  const JobResult result = Job({"-c", line + " <&- >&- 2>&-"}, {}, "/bin/bash").finish();
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(steps("run"), 4);
  EXPECT_EQ(Job({"eval", folder_ + "/run"}).finish().exit_status, 0);
}

// A terminal that is closed; and what reads the output may end.
TEST_F(Train, AHangUpIsARequestToStop) {
  Job job(of_steps(command(1, "run", kOften), kEndless));
  ASSERT_TRUE(wait_for_step("run", 3));
  kill(job.pid(), SIGPIPE);
  kill(job.pid(), SIGHUP);
  EXPECT_EQ(job.finish().exit_status, 75);
}

TEST_F(Train, MistakesInARecipeAreSaidOnce) {
  auto words = command(3, "run", {"--set", "training.btach=1", "--set", "optimizer.lr=fast"});
  const JobResult result = Job(words).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_EQ(count(result.err, "did you mean training.batch?"), 1) << result.err;
  EXPECT_EQ(count(result.err, "optimizer.lr: has to be a number"), 1) << result.err;
}

}  // namespace
}  // namespace convoy::cli
