// `convoy bench partition` and what is projected from its rows; times are not judged here.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "convoy/base/units.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 440 -> 16 -> 16 -> 8, mini-batches of 6.
const Words kSmallSpeech{"--model", "speech",
                         "--set",   "model.options.hidden=16",
                         "--set",   "model.options.depth=2",
                         "--set",   "data.train.classes=8",
                         "--batch", "6"};
constexpr int kParameters = 441 * 16 + 17 * 16 + 17 * 8;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

JobResult bench(const Words& words) { return Job(Words{"bench", "partition"} + words).finish(); }

const Words kShort{"--repetitions", "2", "--seconds", "0.05"};

std::vector<Json> rows_of(const std::string& text) {
  std::vector<Json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

void expect_positive(const Json& row, const Words& keys) {
  for (const std::string& key : keys) EXPECT_GT(row.at(key).get<double>(), 0) << key;
}

void expect_ordered(const Json& row, const Words& keys) {
  for (const std::string& key : keys) {
    const Json& spread = row.at(key);
    EXPECT_GE(spread.at("least").get<double>(), 0) << key;
    EXPECT_LE(spread.at("least"), spread.at("most")) << key;
    if (!spread.contains("mean")) continue;
    EXPECT_LE(spread.at("least").get<double>(), spread.at("mean").get<double>() + 1e-9) << key;
    EXPECT_LE(spread.at("mean").get<double>(), spread.at("most").get<double>() + 1e-9) << key;
  }
}

TEST(BenchPartition, MeasuresEachNumberOfPartitions) {
  const JobResult result = bench(kSmallSpeech + kShort + Words{"-P", "2,1", "--json", "-"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::vector<Json> rows = rows_of(result.out);
  ASSERT_EQ(rows.size(), 2u) << result.out;
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("kind"), "partition");
    EXPECT_EQ(row.at("model"), "speech");
    EXPECT_EQ(row.at("network"), "speech-dnn");
    EXPECT_EQ(row.at("batch"), 6);
    EXPECT_EQ(row.at("repetitions"), 2);
    EXPECT_EQ(row.at("speedup_over_partitions"), 1);
    expect_positive(row, {"training_s", "forward_s", "backward_s", "update_s", "inference_s",
                          "speedup", "inference_speedup", "cores_per_host"});
    expect_ordered(row, {"compute_s", "waiting_s", "sent_bytes", "inference_sent_bytes",
                         "parameters", "memory_bytes"});
    // At least the weights, their gradients and the momentum.
    EXPECT_GT(row.at("memory_bytes").at("least").get<double>(), 3.0 * 4 * kParameters / 2);
  }
  const Json &one = rows[0], &two = rows[1];
  EXPECT_EQ(one.at("partitions"), 1);
  EXPECT_EQ(one.at("ranks_per_host"), 1);
  EXPECT_EQ(one.at("speedup"), 1);
  EXPECT_EQ(one.at("parameters").at("most"), kParameters);
  EXPECT_EQ(one.at("sent_bytes").at("most"), 0);
  EXPECT_EQ(one.at("inference_sent_bytes").at("most"), 0);

  EXPECT_EQ(two.at("partitions"), 2);
  EXPECT_EQ(two.at("ranks_per_host"), 2);
  EXPECT_EQ(two.at("threads"), one.at("threads"));
  // Also where each is bound to some of them.
  EXPECT_GE(two.at("cores_per_host"), std::min(2, one.at("cores_per_host").get<int>()));
  EXPECT_EQ(two.at("parameters").at("least"), kParameters / 2);
  EXPECT_EQ(two.at("parameters").at("most"), kParameters / 2);
  EXPECT_DOUBLE_EQ(two.at("speedup").get<double>(),
                   one.at("training_s").get<double>() / two.at("training_s").get<double>());
  // Each reads three samples and has half of the units: of two hidden layers the other one needs
  // eight of each sample, of the scores four of three samples. In training scores stay where they
  // are, and their samples' labels come to them.
  constexpr int kInputs = 3 * 440 * 4, kHidden = 2 * 6 * 8 * 4, kScores = 3 * 4 * 4;
  constexpr int kLoss = 2 * (2 * 6 * 4);  // two sums of a number of each sample
  const auto sent = [&two](const char* exchange, const char* kind) {
    return two.at(exchange).at(kind).at("sent_bytes").get<double>();
  };
  EXPECT_EQ(sent("exchange", "inputs"), kInputs + 3 * 8);
  EXPECT_EQ(sent("exchange", "activations"), kHidden);
  EXPECT_EQ(sent("exchange", "gradients"), kHidden);
  EXPECT_EQ(sent("exchange", "scores"), 0);
  EXPECT_EQ(two.at("sent_bytes").at("mean"), kInputs + 3 * 8 + 2 * kHidden + kLoss);
  EXPECT_EQ(sent("inference_exchange", "inputs"), kInputs);
  EXPECT_EQ(sent("inference_exchange", "activations"), kHidden);
  EXPECT_EQ(sent("inference_exchange", "gradients"), 0);
  EXPECT_EQ(sent("inference_exchange", "scores"), kScores);
  EXPECT_EQ(two.at("inference_sent_bytes").at("mean"), kInputs + kHidden + kScores);
}

TEST(BenchPartition, DividesImagesAsItIsTold) {
  const test::Scratch scratch;
  const std::string timeline = scratch.path("trace.json");
  const JobResult result = bench(Words{"--model",    "local-s",
                                       "--batch",    "2",
                                       "--images",   "tiles",
                                       "--overlap",  "false",
                                       "--set",      "data.train.height=24",
                                       "--set",      "data.train.width=24",
                                       "--set",      "data.train.classes=6",
                                       "--set",      "model.options.maps=[3, 2]",
                                       "--set",      "model.options.strides=[1, 1]",
                                       "--set",      "model.options.pools=[3, 2]",
                                       "--set",      "model.options.pool_strides=[1, 2]",
                                       "--set",      "model.options.filter=5",
                                       "--timeline", timeline,
                                       "-P",         "2",
                                       "--json",     "-"} +
                                 kShort);
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::vector<Json> rows = rows_of(result.out);
  ASSERT_EQ(rows.size(), 1u);
  const Json& row = rows[0];
  EXPECT_EQ(row.at("network"), "local-image");
  EXPECT_EQ(row.at("images"), "tiles");
  EXPECT_EQ(row.at("overlap"), false);
  EXPECT_FALSE(row.contains("speedup"));
  EXPECT_GT(row.at("exchange").at("activations").at("sent_bytes"), 0);
  // The image's borders alone, not all of it.
  EXPECT_LT(row.at("exchange").at("inputs").at("sent_bytes"), 4 * 3 * 24 * 24);
  EXPECT_NE(test::slurp(timeline).find("backward"), std::string::npos);
}

TEST(BenchPartition, PrintsATable) {
  const JobResult result = bench(
      kSmallSpeech + Words{"-P", "1", "--repetitions", "1", "--seconds", "0.02", "--threads", "1"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  for (const char* text : {"speech-dnn, mini-batches of 6, images by rows, float32, 1 thread",
                           "\ntraining ", "\ninference ", "\npartitions ", " 7,464 "}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
}

// Of what doesn't fit one says so, and the next has its turn.
TEST(BenchPartition, GoesOnWhereMemoryIsNotEnough) {
  // 440 -> hidden -> 8192, four times as large as the machine's memory, half of which is too much
  // as well: whatever others free meanwhile, nothing of it is ever allocated.
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto hidden = static_cast<std::int64_t>(4 * memory / (4 * (440 + 1 + 8192)));
  const JobResult result =
      bench(Words{"--set", "model.options.hidden=" + std::to_string(hidden), "--set",
                  "model.options.depth=1", "-P", "1,2", "--json", "-"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(count(result.err, "going on"), 2) << result.err;
  EXPECT_NE(result.err.find("2 of 2 numbers of partitions could not be measured"),
            std::string::npos)
      << result.err;
  const std::vector<Json> rows = rows_of(result.out);
  ASSERT_EQ(rows.size(), 2u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("partitions"), i + 1);
    const std::string error = rows[i].at("error");
    EXPECT_TRUE(error.starts_with("rank ")) << error;
    EXPECT_NE(error.find(" for SpeechDnn in " + std::to_string(i + 1) + " partition"),
              std::string::npos)
        << error;
  }
}

TEST(BenchPartition, UnderRanksEachIsAPartition) {
  const Words job{"run", "-n", "2", "--", convoy_program(), "bench", "partition"};
  const JobResult other = Job(job + kSmallSpeech + Words{"-P", "3"}).finish();
  EXPECT_EQ(other.exit_status, 2);
  EXPECT_NE(other.err.find("-P 3 inside a job of 2 ranks: leave -P out there"), std::string::npos)
      << other.err;
  const JobResult result = Job(job + kSmallSpeech + kShort + Words{"--json", "-"}).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(rows_of(result.out).at(0).at("partitions"), 2);
  // A run says what the plan says: what all partitions hold, here a layer, is added up in buckets.
  const Words whole{"--set", R"(placement.layers=[{layers=["fc2"], how="whole"}])"};
  const JobResult run = Job(job + kSmallSpeech + kShort + whole).finish();
  Words planned = kSmallSpeech + whole + Words{"-P", "2", "--json", "-"};
  planned.erase(planned.begin(), planned.begin() + 2);
  const JobResult plan = Job(Words{"plan", "partition", "speech-dnn"} + planned).finish();
  ASSERT_EQ(plan.exit_status, 0) << plan.err;
  double most = 0;
  for (const Json& row : rows_of(plan.out)) {
    if (row.at("kind") == "partition") most = std::max(most, row.at("memory_bytes").get<double>());
  }
  const std::string text = format_bytes(static_cast<std::uint64_t>(most)) + " with 6 samples";
  EXPECT_NE(run.err.find(": " + text), std::string::npos) << text << "\n" << run.err;
}

TEST(BenchPartition, SaysWhatIsWrong) {
  using Case = std::pair<Words, std::string>;
  for (const auto& [words, complaint] : std::vector<Case>{
           {{}, "how many partitions? Write for example -P 1,2,4"},
           {{"-P", "0"}, "-P: '0' is not a whole number from 1 to 1024"},
           {{"-P", "1,two"}, "-P: 'two' is not a whole number"},
           {{"-P", "1,,2"}, "-P: there is an empty entry in '1,,2'"},
           {{"-P", "1", "--model", "speach"}, "speach"},
           {{"-P", "1,2", "--set", "partitioned.imagse=rows"}, "did you mean partitioned.images?"},
           {{"-P", "1,2", "--timeline", "trace.json"},
            "--timeline is of one number of partitions"}}) {
    const JobResult result = bench(words);
    EXPECT_EQ(result.exit_status, 2) << complaint;
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("measuring"), std::string::npos) << result.err;
  }
}

// Rows with times that are easily added up: of a second's work a fifth stays with each of the
// partitions and the rest is divided; each waits for a quarter of what it sends.
TEST(BenchPartition, RowsAreProjected) {
  const test::Scratch scratch;
  const auto row = [](int partitions, double compute, double exposed) {
    return Json{{"kind", "partition"},
                {"model", "speech"},
                {"network", "speech-dnn"},
                {"partitions", partitions},
                {"batch", 6},
                {"images", "rows"},
                {"precision", "float32"},
                {"set",
                 {"model.options.hidden=16", "model.options.depth=2", "data.train.classes=8",
                  "optimizer.name=sgd"}},
                {"threads", 1},
                {"ranks_per_host", 1},
                {"cores_per_host", 1},
                {"exchange", {{"scores", {{"sent_bytes", 0}}}}},
                {"compute_s", {{"most", compute}}},
                {"training_s", compute + exposed}}
        .dump();
  };
  // Between two, in either direction: 3 samples' 440 inputs, and twice forward and back 8 units of
  // 6 samples; 10 messages in 5 exchanges of two each at their ends.
  const double bytes = 4 * (3 * 440 + 4 * 8 * 6);
  const double communication = 5 * 0.001 + bytes / 125e6 + 5 * 2 * 0.0005;
  test::spill(scratch.path("rows"), row(1, 1, 0) + "\n" + row(2, 0.6, communication / 4) + "\n" +
                                        row(4, 0.5, 0.1) + "\n");
  const std::string command =
      "python3 '" + test::source_folder() + "/bench/plan/partitions.py' --convoy '" +
      convoy_program() + "' --rows '" + scratch.path("rows") +
      "' --bandwidth 1gbit --latency 0.001 --message 0.0005 --to 8 --json '" + scratch.path("out") +
      "' > '" + scratch.path("table") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::vector<Json> rows = rows_of(test::slurp(scratch.path("out")));
  ASSERT_EQ(rows.size(), 4u);
  const auto close = [&rows](std::size_t i, const char* key, double value) {
    EXPECT_NEAR(rows[i].at(key).get<double>(), value, 1e-9) << i << " " << key;
  };
  close(0, "training_s", 1);
  close(1, "training_s", 0.6 + communication / 4);
  close(1, "error", 0);
  close(2, "compute_s", 0.2 + 0.8 / 4);
  // Three others to send to and receive from; a quarter of the samples, and of the units.
  const double four = 5 * 0.001 + 4 * (1.5 * 440 * 3 + 4 * 4 * 6 * 3) / 125e6 + 5 * 6 * 0.0005;
  close(2, "exposed_communication_s", four / 4);
  close(2, "error", (0.4 + four / 4) / 0.6 - 1);
  close(3, "compute_s", 0.2 + 0.8 / 8);
  EXPECT_FALSE(rows[3].contains("measured_s"));
  EXPECT_NE(test::slurp(scratch.path("table")).find("fastest: 8 partitions"), std::string::npos);
}

}  // namespace
}  // namespace convoy::cli
