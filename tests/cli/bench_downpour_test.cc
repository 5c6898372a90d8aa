// `convoy bench downpour` with real trainings, of a few mini-batches each.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchDownpour : public testing::Test {
 protected:
  // LeNet on MNIST's test images, 20 mini-batches.
  JobResult run(const Words& more) const {
    const std::string source = test::source_folder(), mnist = source + "/data/mnist/t10k-";
    Words words{"bench",    "downpour",           source + "/recipes/mnist-downpour.toml",
                "--folder", scratch_.path("all"), "--json",
                "-"};
    for (const std::string& set :
         {"data.train.images=" + mnist + "images-idx3-ubyte.gz",
          "data.train.labels=" + mnist + "labels-idx1-ubyte.gz", std::string("training.steps=20"),
          std::string("evaluation.every_steps=10"), std::string("evaluation.fraction=0.02"),
          std::string("output.tensorboard=false"), std::string("downpour.backups=false"),
          std::string("downpour.shards=1"), std::string("downpour.lease_s=30"),
          std::string("threads=1")})
      words.insert(words.end(), {"--set", set});
    words.insert(words.end(), more.begin(), more.end());
    return Job(words).finish();
  }
  static std::vector<Json> rows_of(const std::string& text) {
    std::vector<Json> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("{")) rows.push_back(Json::parse(line));
    }
    return rows;
  }

  const test::Scratch scratch_;
};

TEST_F(BenchDownpour, ComparesAndGoesOn) {
  Words words{"--methods", "sgd,adagrad",  "--replicas", "2",       "--lr",
              "sgd=0.05",  "--warm-steps", "5",          "--level", "0.05"};
  const JobResult result = run(words);
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::vector<Json> rows = rows_of(result.out);
  ASSERT_EQ(rows.size(), 2u) << result.out << result.err;
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("state"), "done") << row;
    EXPECT_EQ(row.at("metric"), "top1");
    EXPECT_GE(row.at("steps"), 20);
    for (const char* key : {"best", "level_s", "training_s", "samples_per_s", "cpu_s", "wall_s"})
      EXPECT_GT(row.at(key).get<double>(), 0) << key << " " << row;
  }
  const Json& adagrad = rows[1];
  EXPECT_EQ(adagrad.at("run"), "adagrad-2-f1-p1-s1");
  // Of 20 mini-batches each push is of one or more, and of all parameters.
  const double bytes = 431080 * 4;
  EXPECT_GT(adagrad.at("pushed_bytes").get<double>(), bytes);
  EXPECT_LT(adagrad.at("pushed_bytes").get<double>(), 21 * bytes);
  EXPECT_GT(adagrad.at("fetched_bytes").get<double>(), bytes);
  EXPECT_TRUE(fs::exists(scratch_.path("all/warm-start.safetensors")));
  EXPECT_TRUE(fs::exists(scratch_.path("all/report.html")));
  // Nothing is left to train.
  const JobResult again = run(words);
  ASSERT_EQ(again.exit_status, 0) << again.err;
  EXPECT_EQ(rows_of(again.out)[1], adagrad);
  EXPECT_NE(again.err.find("(from the folder)"), std::string::npos) << again.err;
  words[5] = "sgd=0.04";
  const JobResult other = run(words);
  EXPECT_EQ(other.exit_status, 2);
  EXPECT_NE(other.err.find("warm-start: optimizer.lr was 0.05 and is 0.04"), std::string::npos)
      << other.err;
}

// A run that is refused before it begins takes nothing of the one before it.
TEST_F(BenchDownpour, WhatIsRefusedLeavesWhatWasThere) {
  const Words words{"--methods", "adagrad", "--replicas", "2"};
  const JobResult before = run(words);
  ASSERT_EQ(before.exit_status, 0) << before.err;
  Words refused = words;
  // Beyond this host it needs certificates.
  refused.insert(refused.end(), {"--hosts", "another.invalid", "--overwrite"});
  const JobResult result = run(refused);
  EXPECT_EQ(result.exit_status, 1);
  ASSERT_EQ(rows_of(result.out).size(), 1u) << result.out << result.err;
  EXPECT_EQ(rows_of(result.out)[0].at("state"), "failed");
  EXPECT_FALSE(rows_of(result.out)[0].contains("best")) << "of the run before it";
  EXPECT_NE(result.err.find("certificates"), std::string::npos) << result.err;
  const JobResult after = run(words);
  EXPECT_EQ(after.exit_status, 0) << after.err;
  EXPECT_EQ(rows_of(after.out), rows_of(before.out));
  EXPECT_NE(after.err.find("(from the folder)"), std::string::npos) << after.err;
}

// What is wrong is said before anything is trained.
TEST_F(BenchDownpour, SaysWhatIsWrong) {
  const JobResult result = run({"--lr", "fixed=0.05"});
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("convoy bench downpour: --lr: which rate for 'sgd'?"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(scratch_.path("all")));
}

}  // namespace
}  // namespace convoy::cli
