// convoy plan partition.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

JobResult plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", "partition"});
  return Job(words).finish();
}

// By kind.
std::map<std::string, std::vector<Json>> rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  const JobResult result = plan(words);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  std::map<std::string, std::vector<Json>> rows;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    Json row = Json::parse(line);
    rows[row.at("kind").get<std::string>()].push_back(std::move(row));
  }
  return rows;
}

// LeNet by hand, on two partitions. 28 rows become 24 of conv1 (0-11 need rows 0-15, 12-23 rows
// 12-27), 12 of pool1 (6 each, of its own), 8 of conv2 (4 each, which need rows 0-7 and 4-11), and
// 4 of pool2, which all of fc1 needs.
TEST(PlanPartition, LeNetByHand) {
  const auto rows = rows_of({"lenet", "-P", "2", "--batch", "10"});
  const std::vector<Json>& exchanges = rows.at("exchange");
  ASSERT_EQ(exchanges.size(), 5u);
  const auto expect = [&](std::size_t i, const char* value, const char* how, double values,
                          bool back = true) {
    const Json& row = exchanges[i];
    EXPECT_EQ(row.at("value"), value);
    EXPECT_EQ(row.at("how"), how);
    EXPECT_DOUBLE_EQ(row.at("forward_bytes").get<double>(), 4 * 10 * values);
    EXPECT_EQ(row.at("backward_bytes").get<double>(),
              back ? row.at("forward_bytes").get<double>() : 0);
    ASSERT_EQ(row.at("pairs").size(), 2u);
    EXPECT_EQ(row.at("pairs")[0], (Json{{"from", 0}, {"to", 1}, {"bytes", 4 * 10 * values / 2}}));
  };
  expect(0, "input", "inputs", 2 * 16 * 28 / 2.0, false);
  expect(1, "pool1", "halo", 2 * 2 * 12 * 20);
  expect(2, "pool2", "gather", 800);
  expect(3, "relu", "gather", 500);
  expect(4, "fc2", "outputs", 2 * 5 / 2.0);

  const std::vector<Json>& partitions = rows.at("partition");
  ASSERT_EQ(partitions.size(), 2u);
  const Json& one = partitions[1];
  const double parameters = 25570 + 250 * 801 + 5 * 501;
  EXPECT_EQ(one.at("parameters").get<double>(), parameters);
  EXPECT_EQ(one.at("summed_parameters"), 25570);
  EXPECT_EQ(one.at("macs").get<double>(), 2293000 / 2);
  EXPECT_EQ(one.at("macs_share").get<double>(), 0.5);
  const double fetched = 2 * 12 * 20 + 400 + 250 + 2.5;
  EXPECT_DOUBLE_EQ(one.at("sent_bytes").get<double>(), 40 * (16 * 28 / 2.0 + 2 * fetched));
  EXPECT_DOUBLE_EQ(one.at("received_bytes").get<double>(), 40 * (16 * 28 / 2.0 + 2 * fetched));
  // Outputs, and boxes of the image, pool1, pool2 and relu; momentum is a third value of each
  // parameter.
  const double kept = (20 * 24 * 24 + 20 * 12 * 12 + 50 * 8 * 8 + 800 + 500 + 10) / 2.0 + 16 * 28 +
                      8 * 12 * 20 + 800 + 500;
  EXPECT_DOUBLE_EQ(one.at("activation_bytes").get<double>(), 40 * kept);
  // Copies of rows of the image and of pool1 to send, and two rows of that, received.
  const double messages = 16 * 28 / 2.0 + 2 * 2 * 12 * 20;
  EXPECT_DOUBLE_EQ(one.at("message_bytes").get<double>(), 40 * messages);
  // Gradients that are added up over the partitions are copied into buckets.
  EXPECT_DOUBLE_EQ(one.at("memory_bytes").get<double>(),
                   40 * (kept + messages) + 12 * parameters + 4 * 25570);

  const std::vector<Json>& balance = rows.at("balance");
  ASSERT_EQ(balance.size(), 1u);
  EXPECT_EQ(balance[0].at("macs_max_over_mean"), 1.0);
  EXPECT_EQ(balance[0].at("speedup_at_most"), 2.0);
}

TEST(PlanPartition, KeysOfARecipeCount) {
  const auto rows = rows_of({"lenet", "-P", "2", "--set", "optimizer.name=adam", "--set",
                             "training.batch=20", "--set", "precision=bfloat16"});
  const Json& one = rows.at("partition").at(1);
  // Memory as if all values were in float32: some are.
  EXPECT_EQ(one.at("memory_bytes").get<double>() - 2 * one.at("activation_bytes").get<double>() -
                2 * one.at("message_bytes").get<double>(),
            4 * 4 * (25570 + 250 * 801 + 5 * 501) + 4 * 25570);
  EXPECT_EQ(rows.at("exchange").at(1).at("forward_bytes").get<double>(), 2 * 20 * 2 * 2 * 12 * 20);
}

TEST(PlanPartition, Tables) {
  const JobResult rows = plan({"resnet18", "-P", "4"});
  ASSERT_EQ(rows.exit_status, 0) << rows.err;
  const auto has = [](const JobResult& result, const std::string& text) {
    EXPECT_NE(result.out.find(text), std::string::npos) << result.out;
  };
  has(rows, "resnet18 on 4 partitions, images by rows; mini-batches of 32\n");
  has(rows, "\nlayer4.1.relu              all-to-all ");
  has(rows, " 0-2 > 1-3, 1-3 > 0-2\n");
  has(rows, " each > each\n");
  has(rows, "gradients of 11,176,512 parameters that all partitions hold (42.6 MiB)");
  const JobResult tiles = plan({"resnet18", "-P", "4", "--by", "tiles"});
  has(tiles, "images by tiles");
  EXPECT_NE(tiles.out, rows.out);
  const JobResult one = plan({"lenet", "-P", "1"});
  EXPECT_EQ(one.out.find("from > to"), std::string::npos) << one.out;
  has(one, "1 partition can be 1.00 times as fast as one at most");
}

// Of 1.7 billion parameters none is made.
TEST(PlanPartition, LargeNetworksAreNotBuilt) {
  double parameters = 0;
  const auto rows =
      rows_of({"local-image", "-P", "32", "--by", "tiles", "--set", "model.options.preset=1.7B"});
  for (const Json& row : rows.at("partition")) {
    parameters += row.at("parameters").get<double>();
    EXPECT_EQ(row.at("summed_parameters"), 0);
  }
  EXPECT_EQ(parameters, 1706721312);
}

// Parts of two fully connected layers, and of the rows before them.
TEST(PlanPartition, BalancesBySpeeds) {
  const auto rows = rows_of({"lenet", "-P", "3", "--balance", "macs", "--speeds", "1,1,0.5"});
  std::map<std::string, Json> parts;
  for (const Json& row : rows.at("layer")) parts[row.at("layer")] = row.at("parts");
  // A row of conv2, an eighth of 1.6 of 2.3 million, is too much to hit 20 % with; what follows is
  // a row or a unit off.
  EXPECT_EQ(parts.at("conv2"), (Json{3, 3, 2}));
  EXPECT_EQ(parts.at("conv1"), (Json{10, 10, 4}));
  EXPECT_EQ(parts.at("fc1"), (Json{201, 200, 99}));
  const Json& balance = rows.at("balance").at(0);
  EXPECT_EQ(balance.at("by"), "macs");
  EXPECT_EQ(balance.at("speeds"), (Json{1.0, 1.0, 0.5}));
  // What is said of the whole follows from the shares.
  double most = 0, sum = 0;
  for (const Json& row : rows.at("partition")) {
    most = std::max(most, row.at("macs").get<double>() / row.at("speed").get<double>());
    sum += row.at("macs").get<double>();
  }
  EXPECT_NEAR(balance.at("macs_max_over_mean").get<double>(), most * 2.5 / sum, 1e-12);
  EXPECT_NEAR(balance.at("speedup_at_most").get<double>(), sum / most, 1e-12);
  const auto even = rows_of({"lenet", "-P", "3", "--speeds", "1,1,0.5"});
  EXPECT_EQ(even.count("layer"), 0u);
  const Json& worse = even.at("balance").at(0);
  EXPECT_GT(worse.at("macs_max_over_mean"), 1.35);
  EXPECT_LT(balance.at("macs_max_over_mean"), 1.2);
  // (405510 + 2 x 25570) / 1.5 for speed 1, of which 25570, of the convolutions, all have.
  const JobResult text = plan({"lenet", "-P", "2", "--balance", "parameters", "--speeds", "1,0.5"});
  EXPECT_NE(text.out.find("\nfc1                        units       344 156\n"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("Balance: with speeds of 1, 0.5 the MACs"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("most parameters for its speed has 1."), std::string::npos) << text.out;
}

// Its model, its data, how it divides, and what a run of it has noted.
TEST(PlanPartition, OfARecipe) {
  const test::Scratch scratch;
  write_bars(scratch.path());
  const std::string recipe = scratch.path("mine.toml");
  const auto write = [&](const std::string& partitioned) {
    test::spill(recipe, std::string("strategy = \"partitioned\"\ngrid.partitions = 2\n") +
                            partitioned + "\n" + kRecipe);
  };
  write("partitioned.images = \"tiles\"");
  const JobResult tiles = plan({recipe});
  EXPECT_EQ(tiles.exit_status, 0) << tiles.err;
  EXPECT_NE(tiles.out.find("lenet on 2 partitions, images by tiles"), std::string::npos)
      << tiles.out;
  EXPECT_NE(
      plan({recipe, "--by", "rows", "-P", "3"}).out.find("lenet on 3 partitions, images by rows"),
      std::string::npos);
  write("partitioned.balance = \"macs\"");
  EXPECT_EQ(rows_of({recipe}).at("layer").size(), 6u);
  EXPECT_EQ(rows_of({recipe, "--balance", "even"}).count("layer"), 0u);
  // Of times there is nothing to plan with but what was measured.
  write("partitioned.balance = \"time\"");
  EXPECT_NE(plan({recipe}).out.find("here they are divided evenly"), std::string::npos);
  write(R"(partitioned = {balance = "time", parts = ["conv1: 20 4", "conv2: 7 1", "fc1: 400 100",)"
        R"( "fc2: 9 1", "pool1: 10 2", "pool2: 3 1"]})");
  const auto measured = rows_of({recipe});
  ASSERT_EQ(measured.at("layer").size(), 6u);
  EXPECT_EQ(measured.at("layer")[0],
            (Json{{"kind", "layer"}, {"layer", "conv1"}, {"parts", {20, 4}}}));
  EXPECT_EQ(rows_of({recipe, "-P", "3"}).count("layer"), 0u);
}

TEST(PlanPartition, SaysWhatIsWrong) {
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] : std::vector<Case>{
           {{"lennet", "-P", "2"}, "did you mean 'lenet'"},
           {{"lenet"}, "over how many partitions"},
           {{"nowhere.toml"}, "nowhere.toml"},
           {{"lenet", "-P", "2", "--balance", "time"}, "time not in"},
           {{"lenet", "-P", "3", "--speeds", "1,1"}, "--speeds has 2 numbers for 3"},
           {{"lenet", "-P", "2", "--speeds", "1,0"}, "one is 0"},
           {{"lenet", "-P", "2", "--speeds", "1,-2"}, "one is -2"},
           {{"lenet", "-P", "2", "--speeds", "nan,1"}, "one is nan"},
           {{"lenet", "-P", "2", "--speeds", "1,x"}, "--speeds"},
           {{"lenet", "-P", "2", "--balance", "macs", "--set", "partitioned.speeds=[1]"},
            "it has to have one for each"},
           {{"lenet", "-P", "0"}, "not a whole number from 1 to 1024"},
           {{"lenet", "-P", "2", "--by", "columns"}, "columns not in"},
           {{"vit_b_16", "-P", "2"}, "which trains whole: set strategy = \"sync\""},
           {{"lenet", "-P", "2", "--set", "model.nam=x"}, "model.nam"}}) {
    const JobResult result = plan(words);
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace convoy::cli
