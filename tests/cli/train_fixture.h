// Runs of convoy train on a few images.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/system.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {

namespace fs = std::filesystem;

class Train : public testing::Test {
 protected:
  // LeNet on MNIST's 10,000 test images: 100 steps an epoch.
  std::vector<std::string> command(int ranks, const std::string& run,
                                   std::vector<std::string> more = {}) const {
    const std::string mnist = source_ + "/data/mnist/t10k-";
    std::vector<std::string> words{"train", source_ + "/recipes/lenet-mnist.toml", "-n",
                                   std::to_string(ranks)};
    const auto set = [&words](const std::string& value) {
      words.insert(words.end(), {"--set", value});
    };
    set("data.train.images=" + mnist + "images-idx3-ubyte.gz");
    set("data.train.labels=" + mnist + "labels-idx1-ubyte.gz");
    set("training.batch=100");
    set("training.epochs=1");
    set("evaluation.every_epochs=0");
    set("output.folder=" + folder_ + "/" + run);
    set("output.tensorboard=false");
    for (std::string& word : more) words.push_back(std::move(word));
    return words;
  }

  // Puts a copy of a run there: kTrainedSteps updates on two ranks, with a checkpoint after 9 and
  // 18 of them and at the end, trained by the recipe and the settings of `command`.
  void take_trained_run(const std::string& run) const {
    fs::copy(trained_run(), folder_ + "/" + run, fs::copy_options::recursive);
  }
  static constexpr int kTrainedSteps = 20;
  // One for all programs of tests, which the test cli_trained_run_test makes before them.
  static std::string trained_run() {
    return environment("CONVOY_BINARY_DIR") + "/tests/trained-run";
  }

  // The last step in metrics.jsonl.
  int steps(const std::string& run) const {
    std::ifstream file(folder_ + "/" + run + "/metrics.jsonl");
    std::string line;
    int last = 0;
    while (std::getline(file, line)) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (!row.is_discarded() && row["kind"] == "step") last = row["step"];
    }
    return last;
  }

  bool wait_for_step(const std::string& run, int step) const {
    const auto begin = Clock::now();
    while (steps(run) < step) {
      if (seconds_since(begin) > test::patience_s()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  // A checkpoint has its name a while after the update that it is of: some updates later on a quick
  // machine, many on one with a slow disk. Without one there is nothing to resume.
  bool wait_for_a_checkpoint(const std::string& run) const {
    const auto begin = Clock::now();
    while (seconds_since(begin) < test::patience_s()) {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(folder_ + "/" + run + "/checkpoints", error))
        if (entry.path().filename().string().starts_with("step-")) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  static pid_t rank_process(const Job& job, int rank) {
    for (const JobProcess& process : job.processes("convoy")) {
      if (process.rank == rank) return process.pid;
    }
    return 0;
  }

  std::string newest(const std::string& run) const {
    std::string best;
    for (const auto& entry : fs::directory_iterator(folder_ + "/" + run + "/checkpoints")) {
      best = std::max(best, entry.path().string());
    }
    return best;
  }

  const std::string source_ = test::source_folder();
  const test::Scratch scratch_;
  const std::string folder_ = scratch_.path();
};

inline int random_between(int least, int most) {
  static std::mt19937 random(std::random_device{}());
  return std::uniform_int_distribution(least, most)(random);
}

inline const std::vector<std::string> kOften{"--set", "checkpoint.every_steps=9"};

// For runs that are killed or stopped, which may not end by themselves before that on any machine.
inline constexpr int kEndless = 1'000'000;

// A training of so many updates, whatever was said before of its length.
inline std::vector<std::string> of_steps(std::vector<std::string> words, int steps) {
  words.insert(words.end(),
               {"--set", "training.epochs=0", "--set", "training.steps=" + std::to_string(steps)});
  return words;
}

// Rates that differ from update to update, but not with the length of the training: one that was to
// go on for longer comes to the same weights. No training has fewer updates than the warm-up.
inline const std::vector<std::string> kRisingRates{
    "--set", "schedule.name=constant", "--set", "schedule.unit=steps",
    "--set", "schedule.warmup=9",      "--set", "schedule.warmup_from=0.2"};

}  // namespace convoy::cli
