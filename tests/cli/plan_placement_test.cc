// convoy plan placement: with a machine that is given, and with one that is measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan/numbers.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/plan/placement.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

JobResult plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", "placement"});
  return Job(words).finish();
}

std::vector<Json> rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  const JobResult result = plan(words);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  std::vector<Json> rows;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

// Of placements alone: the first row says what they are of.
std::vector<Json> placements_of(const std::vector<std::string>& words) {
  std::vector<Json> rows = rows_of(words);
  EXPECT_EQ(rows.at(0).at("kind"), "plan");
  rows.erase(rows.begin());
  return rows;
}

const Json& row(const std::vector<Json>& rows, const std::string& placement) {
  const auto found = std::find_if(
      rows.begin(), rows.end(), [&](const Json& one) { return one.at("placement") == placement; });
  if (found == rows.end()) throw std::runtime_error("there is no row of " + placement);
  return *found;
}

// A machine without times of layers.
constexpr const char* kHosts = R"([compute]
seconds_per_sample = 0.01
processor_share = 0.5
[communication]
kind = "ring"
gradient_bytes = 1724320.0
bandwidth_bytes_per_s = 1e6
)";
// With those of LeNet, whose convolutions take a millisecond for each of 4 images and backward
// twice as long, its fully connected layers no time.
const std::string kMachine = "source = \"given\"\n" + std::string(kHosts) + R"([placement]
model = "lenet"
[[placement.layers]]
name = "conv1"
times = [{samples = 4, forward_s = 0.004, backward_s = 0.008}]
[[placement.layers]]
name = "pool1"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
[[placement.layers]]
name = "conv2"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
[[placement.layers]]
name = "pool2"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
[[placement.layers]]
name = "flatten"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
[[placement.layers]]
name = "fc1"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
[[placement.layers]]
name = "fc2"
times = [{samples = 4, forward_s = 0.0, backward_s = 0.0}]
)";

TEST(PlanPlacement, RatesAndLatenciesHaveUnits) {
  EXPECT_DOUBLE_EQ(parse_rate("200mbit", "--bandwidth"), 25e6);
  EXPECT_DOUBLE_EQ(parse_rate("2.5gbit", "--bandwidth"), 312.5e6);
  EXPECT_DOUBLE_EQ(parse_rate("100MB", "--bandwidth"), 100e6);
  EXPECT_DOUBLE_EQ(parse_rate("1MiB", "--bandwidth"), 1048576);
  EXPECT_DOUBLE_EQ(parse_latency("50us", "--latency"), 5e-5);
  EXPECT_DOUBLE_EQ(parse_latency("1.5ms", "--latency"), 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_latency("0s", "--latency"), 0);
  for (const char* wrong : {"", "mbit", "0gbit", "-1mbit", "fast", "0"})
    EXPECT_THROW(parse_rate(wrong, "--bandwidth"), UsageError) << wrong;
  for (const char* wrong : {"", "1", "ms", "-1us", "1h"})
    EXPECT_THROW(parse_latency(wrong, "--latency"), UsageError) << wrong;
}

TEST(PlanPlacement, AnswersForAMachineThatIsGiven) {
  const test::Scratch scratch;
  const std::string machine = scratch.path("machine.toml");
  std::ofstream(machine) << kMachine;
  const std::vector<std::string> words{"lenet", "--world",   "2",    "--batch-per-rank",
                                       "4",     "--machine", machine};
  const std::vector<Json> rows = placements_of(words);
  EXPECT_EQ(rows.size(), 5u);
  const Json& sync = row(rows, "sync");
  // 431,080 parameters, and what ranks agree on; half of a processor takes twice the time.
  EXPECT_NEAR(sync.at("sent_bytes").get<double>(), 4 * 431080 + 8, 1e-6);
  EXPECT_NEAR(sync.at("compute_s").get<double>(), 0.024, 1e-12);
  EXPECT_EQ(sync.at("parameter_bytes"), 4 * 431080);
  // Gradients of fully connected layers, all but 0.1 s of the communication, begin before conv1's
  // backward does.
  EXPECT_NEAR(sync.at("step_s").get<double>(), 8e-6 + 0.008 + 4 * 0.431080, 1e-6);
  const Json& c = row(rows, "hybrid c, 1 x 2");
  EXPECT_EQ(c.at("strategy"), "hybrid");
  EXPECT_EQ(c.at("scheme"), "c");
  EXPECT_EQ(c.at("partitions"), 2);
  // Activations and their gradients, between the layers, scores; and the convolutions' gradients.
  EXPECT_NEAR(c.at("sent_bytes").get<double>(),
              2 * 4 * 4 * 800 + 2 * 4 * 8 * 250 + 2 * 4 * 4 * 5 + 4 * 25570 + 8, 1e-6);
  EXPECT_EQ(c.at("parameter_bytes"), 4 * 25570 + 2 * (500 * 801 + 10 * 501));
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                          [](const Json& one) { return one.at("chosen").get<bool>(); }),
            1);
  EXPECT_FALSE(sync.at("chosen").get<bool>());
  EXPECT_TRUE(row(rows, "model parallelism").at("strategy").is_null());

  const Json of = rows_of(words).at(0);
  EXPECT_EQ(of.at("model"), "lenet");
  EXPECT_EQ(of.at("ranks"), 2);
  EXPECT_EQ(of.at("samples_per_rank"), 4);
  EXPECT_EQ(of.at("unit"), "images");
  EXPECT_EQ(of.at("bandwidth_bytes_per_s"), 1e6);
  EXPECT_EQ(of.at("processor_share"), 0.5);
  EXPECT_EQ(of.at("measured"), "times and network from " + machine);

  // A network without limits: nothing is to be had from dividing layers that take no time.
  std::vector<std::string> fast = words;
  fast.insert(fast.end(), {"--bandwidth", "1000gbit"});
  EXPECT_LT(row(placements_of(fast), "sync").at("step_s").get<double>(), 0.0241);
  const JobResult table = plan(words);
  ASSERT_EQ(table.exit_status, 0) << table.err;
  EXPECT_NE(table.out.find("lenet on 2 ranks, 4 images each; times and network from " + machine),
            std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("\n* hybrid "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\n  sync "), std::string::npos) << table.out;

  std::vector<std::string> small = words;
  small.insert(small.end(), {"--memory", "1KiB"});
  EXPECT_NE(plan(small).err.find("no placement takes as little memory"), std::string::npos);
}

TEST(PlanPlacement, MeasuresHere) {
  const test::Scratch scratch;
  const std::string machine = scratch.path("machine.toml");
  const std::vector<Json> rows = placements_of({"lenet", "--world", "2", "--batch-per-rank", "2",
                                                "--repetitions", "1", "--write-machine", machine});
  EXPECT_EQ(rows.size(), 5u);
  for (const Json& one : rows) {
    EXPECT_GT(one.at("step_s").get<double>(), 0);
    EXPECT_GT(one.at("compute_s").get<double>(), 0);
    EXPECT_GT(one.at("communication_s").get<double>(), 0);
  }
  // What was written plans the same again, without measuring.
  EXPECT_EQ(placements_of({"lenet", "--world", "2", "--batch-per-rank", "2", "--machine", machine}),
            rows);
}

// A network and a share are what the file says; times, and what a byte costs a processor, are of
// this machine.
TEST(PlanPlacement, MeasuresWhatAMachineLacks) {
  const test::Scratch scratch;
  const std::string given = scratch.path("given.toml"), found = scratch.path("found.toml");
  std::ofstream(given) << kHosts << "latency_s = 1e-3\n";
  const std::vector<std::string> words{"lenet",     "--world",
                                       "64",        "--batch-per-rank",
                                       "2",         "-n",
                                       "2",         "--repetitions",
                                       "1",         "--set",
                                       "threads=1", "--machine",
                                       given,       "--write-machine",
                                       found};
  const JobResult result = plan(words);
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(
      result.out.find("measured on 2 ranks x 1 thread, the network as given\nOnly 2 of the 64 "
                      "ranks were measured: the others are taken to be like them"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("a rank has 50 % of its processor"), std::string::npos) << result.out;
  const plan::MeasuredPlacement measured =
      plan::measured_placement_of_toml(read_text_file(found), found);
  EXPECT_EQ(measured.machine.processor_share, 0.5);
  EXPECT_EQ(measured.network.bandwidth_bytes_per_s, 1e6);
  EXPECT_EQ(measured.network.latency_s, 1e-3);
  EXPECT_EQ(measured.network.exchange_bandwidth_bytes_per_s, 0);
  // A difference of times that were measured, and 0 where they scatter more than that.
  EXPECT_GE(measured.network.processor_s_per_byte, 0);
  EXPECT_EQ(measured.loss.size(), 2u);

  // The same with a network in words, by a rank alone: nobody has sent anything.
  const std::vector<std::string> alone{"lenet", "--world",   "2",         "--batch-per-rank",
                                       "2",     "-n",        "1",         "--repetitions",
                                       "1",     "--set",     "threads=1", "--bandwidth",
                                       "8mbit", "--latency", "2ms",       "--write-machine",
                                       found};
  const JobResult one = plan(alone);
  ASSERT_EQ(one.exit_status, 0) << one.err;
  EXPECT_NE(one.out.find("measured on 1 rank x 1 thread, the network as given\nOnly 1 of the 2"),
            std::string::npos)
      << one.out;
  const plan::MeasuredPlacement again =
      plan::measured_placement_of_toml(read_text_file(found), found);
  EXPECT_EQ(again.network.bandwidth_bytes_per_s, 1e6);
  EXPECT_EQ(again.network.latency_s, 2e-3);
  EXPECT_EQ(again.machine.communication.gradient_bytes, 4 * 431080);
}

TEST(PlanPlacement, OneRankNeedsNoNetwork) {
  const test::Scratch scratch;
  const std::string machine = scratch.path("machine.toml");
  std::string text = kMachine;
  const std::size_t begin = text.find("[communication]");
  text.erase(begin, text.find("[placement]") - begin);
  std::ofstream(machine) << text;
  const std::vector<std::string> words{"lenet", "--batch-per-rank", "4", "--machine", machine};
  std::vector<std::string> one = words, two = words;
  one.insert(one.end(), {"--world", "1"});
  const std::vector<Json> rows = placements_of(one);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].at("step_s").get<double>(), 0.024, 1e-12);
  two.insert(two.end(), {"--world", "2"});
  EXPECT_NE(plan(two).err.find("no communication.bandwidth_bytes_per_s"), std::string::npos);
}

// Keys of the recipe have the last word on the network and the batch.
TEST(PlanPlacement, PlansTheRecipeThatKeysMake) {
  const test::Scratch scratch;
  const std::string machine = scratch.path("machine.toml");
  std::ofstream(machine) << kMachine;
  const std::vector<std::string> words{
      "resnet18", "--world",          "2",     "--batch-per-rank", "64", "--machine", machine,
      "--set",    "model.name=lenet", "--set", "training.batch=8"};
  const JobResult table = plan(words);
  ASSERT_EQ(table.exit_status, 0) << table.err;
  EXPECT_NE(table.out.find("lenet on 2 ranks, 4 images each;"), std::string::npos) << table.out;
  EXPECT_NEAR(row(placements_of(words), "sync").at("step_s").get<double>(),
              8e-6 + 0.008 + 4 * 0.431080, 1e-6);
}

TEST(PlanPlacement, SaysWhatIsWrong) {
  const test::Scratch scratch;
  const std::string machine = scratch.path("machine.toml");
  std::ofstream(machine) << kMachine;
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] :
       std::vector<Case>{{{"lennet", "--world", "2"}, "did you mean 'lenet'"},
                         {{"lenet"}, "for how many ranks? Add --world N"},
                         {{"resnet18", "--world", "2", "--machine", machine}, "not of 'resnet18'"},
                         {{"lenet", "--world", "2", "--latency", "1ms"}, "add --bandwidth"},
                         {{"lenet", "--world", "2", "--bandwidth", "fast"},
                          "--bandwidth: 'fast' is no rate, as 1gbit or 100MB"},
                         {{"lenet", "--world", "2", "--bandwidth", "1gbit", "--latency", "1"},
                          "--latency: '1' is no time, as 50us or 1ms"}}) {
    const JobResult result = plan(words);
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace convoy::cli
