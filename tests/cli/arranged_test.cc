// A strategy and a task of somebody's own, through the whole program: trained, killed, resumed,
// evaluated, exported and asked.
#include <csignal>
#include <functional>
#include <sstream>

#include "tests/cli/exported.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

class Arranged : public Train {
 protected:
  static constexpr int kLeast = 45;  // updates after which LeNet tells most digits

  const std::string plugin_ =
      fs::path(rank_program()).replace_filename("libcli_arranged_plugin.so").string();

  void write(const std::string& recipe, const std::string& text) const {
    std::ofstream(recipe) << "plugins = [\"" << plugin_ << "\"]\n" << text;
  }

  // Trains twice, once through kills of a rank at any moment; the weights have to be the same bits.
  // So many updates at least: how far the one that is killed comes before that is the machine's
  // matter, and the other goes as far. Its rates may not depend on the length of the training.
  void expect_kills_to_change_nothing(
      const std::function<std::vector<std::string>(const std::string& run)>& train, int ranks,
      int least, int times) const {
    for (int kills = 0; kills < times; ++kills) {
      auto words = of_steps(train("killed"), kEndless);
      if (kills > 0) words.push_back("--resume");
      const int before = steps("killed");
      Job job(words);
      ASSERT_TRUE(wait_for_step("killed", before + random_between(4, least / 3)));
      ASSERT_TRUE(wait_for_a_checkpoint("killed"));
      const pid_t victim = rank_process(job, random_between(0, ranks - 1));
      ASSERT_GT(victim, 0);
      kill(victim, SIGKILL);
      EXPECT_EQ(job.finish().exit_status, 1);
    }
    const int enough = std::max(least, steps("killed") + 5);
    auto again = of_steps(train("killed"), enough);
    again.push_back("--resume");
    const JobResult resumed = Job(again).finish();
    ASSERT_EQ(resumed.exit_status, 0) << resumed.err;
    EXPECT_EQ(steps("killed"), enough);
    const JobResult whole = Job(of_steps(train("whole"), enough)).finish();
    ASSERT_EQ(whole.exit_status, 0) << whole.err;
    EXPECT_EQ(steps("whole"), enough);
    EXPECT_TRUE(exported_model(folder_ + "/killed") == exported_model(folder_ + "/whole"));
  }

  // LeNet, evaluated on what it was trained on.
  std::vector<std::string> lenet(const std::string& run, int ranks,
                                 const std::vector<std::string>& how) const {
    auto words = command(ranks, run, kOften);
    words.insert(words.end(), kRisingRates.begin(), kRisingRates.end());
    const std::string mnist = source_ + "/data/mnist/t10k-";
    std::vector<std::string> values{"data.validation.images=" + mnist + "images-idx3-ubyte.gz",
                                    "data.validation.labels=" + mnist + "labels-idx1-ubyte.gz"};
    values.insert(values.end(), how.begin(), how.end());
    for (const std::string& value : values) words.insert(words.end(), {"--set", value});
    return words;
  }

  nlohmann::json rows_of(const std::vector<std::string>& command) const {
    auto words = command;
    words.insert(words.end(), {"--json", "-"});
    const JobResult result = Job(words).finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    nlohmann::json rows = nlohmann::json::array();
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (row.is_object()) rows.push_back(row);
    }
    return rows;
  }
};

// LeNet, half of it on each of two partitions, of two replicas.
TEST_F(Arranged, HalvesOfANetworkOnAGrid) {
  const auto train = [this](const std::string& run) {
    return lenet(run, 4, {"plugins=[\"" + plugin_ + "\"]", "strategy=halves", "grid.partitions=2"});
  };
  expect_kills_to_change_nothing(train, 4, kLeast, 1);
  // The same network, each half on its rank, on ranks that were not there in training, and whole.
  const std::string run = folder_ + "/whole";
  const auto two = rows_of({"eval", run, "-n", "2"});
  const auto one =
      rows_of({"eval", run, "-n", "1", "--set", "strategy=sync", "--set", "grid.partitions=1"});
  ASSERT_EQ(two.size(), 1u);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(two[0]["top1"], one[0]["top1"]);
  EXPECT_NEAR(two[0]["loss"].get<double>(), one[0]["loss"].get<double>(), 1e-6);
  EXPECT_GT(two[0]["top1"], 0.5);
  const std::string picture = source_ + "/tests/data/fixtures/gray.png";
  const auto of_two = rows_of({"predict", run, picture, "-n", "2"});
  const auto of_one =
      rows_of({"predict", run, picture, "--set", "strategy=sync", "--set", "grid.partitions=1"});
  ASSERT_EQ(of_two.size(), 1u);
  EXPECT_EQ(of_two, of_one);
  EXPECT_EQ(of_two[0]["classes"].size(), 5u);
}

// Fully connected layers in three parts, which are updated after each of three passes: a rank dies
// in any of them, and those that wait for it end, too.
TEST_F(Arranged, PartitionedLayersInAnyPass) {
  const auto train = [this](const std::string& run) {
    return lenet(run, 3,
                 {"strategy=hybrid", "grid.partitions=3", "hybrid.scheme=b",
                  "hybrid.variable_batch=true", "hybrid.reproducible=true"});
  };
  expect_kills_to_change_nothing(train, 3, kLeast, 3);
}

// A network of which each rank computes some rows: whoever dies is named with its place in the
// grid, and another grid goes on.
TEST_F(Arranged, ANetworkOverRanksAndOnAnotherGrid) {
  const auto train = [this](const std::string& run, int ranks, int partitions) {
    return lenet(run, ranks,
                 {"strategy=partitioned", "grid.partitions=" + std::to_string(partitions)});
  };
  expect_kills_to_change_nothing([&](const std::string& run) { return train(run, 3, 3); }, 3,
                                 kLeast, 1);
  Job job(of_steps(train("other", 4, 2), kEndless));
  ASSERT_TRUE(wait_for_a_checkpoint("other"));
  const pid_t victim = rank_process(job, 3);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  ASSERT_GE(job.wait_until_gone(), 0);
  const JobResult result = job.finish();
  // It, or what supervises it.
  EXPECT_NE(result.err.find("(replica 1, partition 1)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("killed by signal 9"), std::string::npos) << result.err;
  const int enough = std::max(kLeast, steps("other") + 5);
  auto on_two = of_steps(train("other", 2, 2), enough);
  on_two.push_back("--resume");
  const JobResult resumed = Job(on_two).finish();
  ASSERT_EQ(resumed.exit_status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("partitioned over 2 ranks: one holds up to"), std::string::npos)
      << resumed.err;
  EXPECT_EQ(steps("other"), enough);
  // Whole, and on four ranks, what it says is the same.
  const std::string run = folder_ + "/other";
  const std::string picture = source_ + "/tests/data/fixtures/gray.png";
  const auto one =
      rows_of({"predict", run, picture, "--set", "strategy=sync", "--set", "grid.partitions=1"});
  const auto four = rows_of({"predict", run, picture, "-n", "4", "--set", "grid.partitions=4"});
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(four.size(), 1u);
  ASSERT_EQ(one[0]["classes"].size(), four[0]["classes"].size());
  for (std::size_t i = 0; i < one[0]["classes"].size(); ++i) {
    EXPECT_EQ(one[0]["classes"][i]["index"], four[0]["classes"][i]["index"]);
    EXPECT_NEAR(one[0]["classes"][i]["probability"].get<double>(),
                four[0]["classes"][i]["probability"].get<double>(), 1e-5);
  }
}

constexpr const char* kWords = R"(
name = "words"
[task]
name = "next_letter"
[model]
name = "reader"
[data]
reader = "words"
[data.train]
size = 400
[data.validation]
size = 31
[optimizer]
lr = 0.5
[training]
batch = 64
epochs = 2
[checkpoint]
every_steps = 5
[output]
tensorboard = false
)";

// Texts of different lengths, in batches that hold so many tokens.
TEST_F(Arranged, ATaskWithTexts) {
  write(folder_ + "/words.toml", kWords);
  const auto train = [this](const std::string& run) {
    return std::vector<std::string>{"train", folder_ + "/words.toml",
                                    "-n",    "3",
                                    "--set", "output.folder=" + folder_ + "/" + run};
  };
  const JobResult first = Job(train("first")).finish();
  ASSERT_EQ(first.exit_status, 0) << first.err;
  expect_kills_to_change_nothing(train, 3, steps("first"), 2);
  const std::string run = folder_ + "/whole";
  const auto evaluation = rows_of({"eval", run, "-n", "2"});
  ASSERT_EQ(evaluation.size(), 1u);
  EXPECT_LT(evaluation[0]["perplexity"], 6);
  const auto answers = rows_of({"predict", run, "abcd", "-n", "2"});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0]["next"].get<std::string>().size(), 1u);
}

}  // namespace
}  // namespace convoy::cli
