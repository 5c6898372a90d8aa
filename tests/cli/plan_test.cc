// convoy plan, with a small network and few points.
#include <csignal>
#include <set>
#include <sstream>

#include "convoy/base/files.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Plan : public Train {
 protected:
  // `convoy plan WHAT` of LeNet on MNIST's 10,000 test images.
  Words plan(const std::string& what, Words more = {}) const {
    Words words = command(1, "run");
    words.erase(words.begin() + 2, words.begin() + 4);  // -n 1
    words.front() = what;
    words.insert(words.begin(), "plan");
    words.insert(words.end(), {"--folder", folder_ + "/plan"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Words sweep(Words more = {}) const {
    Words all{"--targets", "1.2,0.7", "--batches",     "40,160", "--rates", "0.01",
              "--seeds",   "2",       "--every",       "2",      "--time",  "4,64",
              "--workers", "1,2",     "--repetitions", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return plan("batch", all);
  }

  std::string complaint(const Words& words) const {
    const JobResult result = Job(words).finish(seconds(60));
    EXPECT_EQ(result.exit_status, 2) << result.err;
    return result.err;
  }

  std::vector<Json> points() const {
    std::istringstream file(read_text_file(folder_ + "/plan/points.jsonl"));
    std::vector<Json> rows;
    std::string line;
    while (std::getline(file, line)) {
      Json row = Json::parse(line, nullptr, false);
      if (row.is_object()) rows.push_back(std::move(row));
    }
    return rows;
  }

  static constexpr auto kLong = seconds(550);
};

TEST_F(Plan, MistakesAreFoundBeforeAnythingIsMeasured) {
  EXPECT_NE(complaint(plan("batch")).find("what is to be reached?"), std::string::npos);
  EXPECT_NE(complaint(plan("batch", {"--target", "los=1"})).find("did you mean loss?"),
            std::string::npos);
  EXPECT_NE(complaint(plan("batch", {"--target", "loss=1", "--batches", "16,20000"}))
                .find("--batches: 20000 is more than the data has: 10000 samples"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ + "/plan"));
}

// Killed once: what was finished is not done again, and the answers are complete.
TEST_F(Plan, GoesOnAfterAKillAndAnswers) {
  {
    Job job(sweep());
    bool seen = false;
    for (int i = 0; i < 10 && !seen; ++i) seen = job.wait_for("seed 1: ", 1);
    ASSERT_TRUE(seen);
    kill(job.pid(), SIGKILL);
    job.finish();
  }
  const std::vector<Json> before = points();
  EXPECT_GE(before.size(), 1 + 4 + 2 + 1u);  // header, times, communication, a run
  EXPECT_NE(complaint(sweep()).find("add --resume to go on with them"), std::string::npos);
  EXPECT_NE(complaint(sweep({"--resume", "--set", "optimizer.momentum=0.5"}))
                .find("of another recipe: optimizer.momentum is 0.5, there it is 0.9"),
            std::string::npos);

  const std::string rows = folder_ + "/rows.jsonl";
  const JobResult result = Job(sweep({"--resume", "--json", rows})).finish(kLong);
  ASSERT_EQ(result.exit_status, 0) << result.out << result.err;
  const std::vector<Json> after = points();
  ASSERT_EQ(after.size(), 1 + 4 + 2 + 4u);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i]);
  std::set<std::string> runs;
  for (const Json& row : after) {
    if (row["kind"] == "run") runs.insert(row["batch"].dump() + " " + row["seed"].dump());
  }
  EXPECT_EQ(runs, (std::set<std::string>{"40 1", "160 1", "40 2", "160 2"}));
  EXPECT_EQ(count(result.out, "update of "), 0) << result.out;
  EXPECT_TRUE(fs::is_empty(folder_ + "/plan/runs") || !fs::exists(folder_ + "/plan/runs"));

  EXPECT_NE(result.out.find("loss 0.7:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("M_opt"), std::string::npos);
  std::istringstream lines(read_text_file(rows));
  std::string line;
  int choices = 0;
  while (std::getline(lines, line)) {
    const Json row = Json::parse(line);
    if (row["kind"] != "batch") continue;
    ++choices;
    EXPECT_GE(row["batch"], 1);
    EXPECT_GT(row["seconds"], 0);
    EXPECT_EQ(row["learning_rate"], 0.01);
  }
  EXPECT_EQ(choices, 2 * 2);  // targets, workers

  const std::string file = folder_ + "/plan/plan.toml";
  Words train = command(
      1, "planned", {"--plan", file, "--set", "training.epochs=0", "--set", "training.steps=3"});
  train.erase(std::remove(train.begin(), train.end(), "training.batch=100"), train.end());
  const auto set = std::adjacent_find(train.begin(), train.end());  // a --set without its value
  if (set != train.end()) train.erase(set);
  const JobResult trained = Job(train).finish(kLong);
  EXPECT_EQ(trained.exit_status, 0) << trained.err;
  EXPECT_NE(trained.out.find("for 1 worker, from " + file), std::string::npos) << trained.out;
  EXPECT_NE(complaint(command(1, "both", {"--plan", file})).find("contradict each other"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::cli
