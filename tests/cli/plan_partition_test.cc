// convoy plan partition.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

JobResult plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", "partition"});
  return Job(words).finish(std::chrono::seconds(60));
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
  EXPECT_DOUBLE_EQ(one.at("memory_bytes").get<double>(), 40 * kept + 12 * parameters);

  const std::vector<Json>& balance = rows.at("balance");
  ASSERT_EQ(balance.size(), 1u);
  EXPECT_EQ(balance[0].at("macs_max_over_mean"), 1.0);
  EXPECT_EQ(balance[0].at("speedup_at_most"), 2.0);
}

TEST(PlanPartition, KeysOfARecipeCount) {
  const auto rows = rows_of({"lenet", "-P", "2", "--set", "optimizer.name=adam", "--set",
                             "training.batch=20", "--set", "precision=bfloat16"});
  const Json& one = rows.at("partition").at(1);
  EXPECT_EQ(one.at("memory_bytes").get<double>() - one.at("activation_bytes").get<double>(),
            4 * 4 * (25570 + 250 * 801 + 5 * 501));
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

TEST(PlanPartition, SaysWhatIsWrong) {
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] :
       std::vector<Case>{{{"lennet", "-P", "2"}, "did you mean 'lenet'"},
                         {{"lenet"}, "--partitions is required"},
                         {{"lenet", "-P", "0"}, "not a whole number from 1 to 1024"},
                         {{"lenet", "-P", "2", "--by", "columns"}, "columns not in"},
                         {{"lenet", "-P", "2", "--set", "model.nam=x"}, "model.nam"}}) {
    const JobResult result = plan(words);
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace convoy::cli
