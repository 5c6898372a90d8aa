// `convoy bench step` runs and reports what it promises; its figures are not judged here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "tests/base/scratch.h"
#include "tests/cli/bench_rows.h"
#include "tests/cli/job.h"
#include "tests/train/read_timeline.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

// `convoy bench step` with a row on standard output, of two ranks that take no time.
Json row_of_step(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "step", "-n", "2", "--batch-per-rank", "4", "--repetitions",
                               "2", "--seconds", "0.1", "--json", "-"});
  const JobResult result = Job(words).finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  const Json row = Json::parse(result.out, nullptr, false);
  return row.is_discarded() ? Json::object() : row;
}

constexpr int kLeNet = 431080;  // parameters

TEST(BenchStep, ReportsOneRow) {
  const Json row = row_of_step({"--model", "lenet"});
  EXPECT_EQ(row.at("model"), "lenet");
  EXPECT_EQ(row.at("strategy"), "sync");
  EXPECT_EQ(row.at("ranks"), 2);
  EXPECT_EQ(row.at("batch_per_rank"), 4);
  EXPECT_EQ(row.at("precision"), "float32");
  EXPECT_EQ(row.at("gradient_bytes"), 4 * kLeNet);
  EXPECT_EQ(row.at("parameters_per_rank"), kLeNet);
  EXPECT_TRUE(row.at("exchange").empty());
  expect_positive(row,
                  {"images_per_s", "independent_images_per_s", "fraction_of_independent", "step_s",
                   "processor_s", "forward_s", "backward_s", "update_s", "communication_s"});
  EXPECT_GE(row.at("exposed_communication_s").get<double>(), 0);
  EXPECT_GE(row.at("hidden_communication").get<double>(), 0);
  EXPECT_LE(row.at("hidden_communication").get<double>(), 1);
  // At least the weights, their gradients and the momentum.
  EXPECT_GT(row.at("peak_memory_bytes").get<double>(), 3.0 * 4 * kLeNet);
}

TEST(BenchStep, MeasuresHybrid) {
  // 500 units and 10 on two ranks, behind 800 activations of each of 4 images.
  const Json row = row_of_step({"--model", "lenet", "--strategy", "hybrid", "--scheme", "c"});
  EXPECT_EQ(row.at("strategy"), "hybrid");
  EXPECT_EQ(row.at("scheme"), "c");
  EXPECT_EQ(row.at("senders"), 0);
  EXPECT_EQ(row.at("partitions"), 2);
  EXPECT_EQ(row.at("replicas"), 1);
  EXPECT_FALSE(row.contains("independent_images_per_s"));
  constexpr int kTrunk = 20 * 26 + 50 * (20 * 25 + 1), kHead = 500 * 801 + 10 * 501;
  EXPECT_EQ(row.at("gradient_bytes"), 4 * kTrunk);
  EXPECT_EQ(row.at("parameters_per_rank"), kTrunk + kHead / 2);
  const Json& exchange = row.at("exchange");
  for (const char* way : {"sent_bytes", "received_bytes"}) {
    EXPECT_EQ(exchange.at("activations").at(way), 4 * 4 * 800) << way;
    EXPECT_EQ(exchange.at("gradients").at(way), 4 * 4 * 800) << way;
    EXPECT_EQ(exchange.at("between layers").at(way), 2 * 4 * 8 * 250) << way;
    EXPECT_EQ(exchange.at("scores").at(way), 2 * 4 * 4 * 5) << way;
  }
  EXPECT_EQ(row.at("group_gradient_bytes"), 0);
  expect_positive(row, {"images_per_s", "step_s", "forward_s", "backward_s", "update_s",
                        "exposed_communication_s", "communication_s"});
  EXPECT_LT(row.at("hidden_communication").get<double>(), 1);
}

TEST(BenchStep, MeasuresPartitioned) {
  // Convolutions are on both ranks, which have half of the rows each, and of the head half of the
  // units.
  const Json row = row_of_step({"--model", "lenet", "--strategy", "partitioned"});
  EXPECT_EQ(row.at("strategy"), "partitioned");
  EXPECT_EQ(row.at("images"), "rows");
  EXPECT_EQ(row.at("partitions"), 2);
  EXPECT_EQ(row.at("replicas"), 1);
  EXPECT_FALSE(row.contains("independent_images_per_s"));
  constexpr int kTrunk = 20 * 26 + 50 * (20 * 25 + 1), kHead = 500 * 801 + 10 * 501;
  EXPECT_EQ(row.at("gradient_bytes"), 4 * kTrunk);
  EXPECT_EQ(row.at("parameters_per_rank"), kTrunk + kHead / 2);
  // Two rows of 12 positions of 20 maps across the middle, two rows of 4 of 50, and 250 units, of
  // each of 8 images.
  EXPECT_EQ(row.at("exchange").at("activations").at("sent_bytes"),
            4 * 8 * (2 * 12 * 20 + 2 * 4 * 50 + 250));
  EXPECT_EQ(row_of_step({"--model", "lenet", "--strategy", "partitioned", "--partitions", "1"})
                .at("replicas"),
            2);
}

TEST(BenchStep, TakesKeysOfARecipe) {
  const Json row = row_of_step({"--model", "lenet", "--strategy", "hybrid", "--partitions", "1",
                                "--set", "optimizer.name=adam", "--set", "hybrid.wire=bfloat16",
                                "--bucket-bytes", "64KiB"});
  EXPECT_EQ(row.at("replicas"), 2);
  // Of the divided layers both ranks have all.
  EXPECT_EQ(row.at("group_gradient_bytes"), 2 * (500 * 801 + 10 * 501));
  EXPECT_EQ(row.at("gradient_bytes"), 2 * (20 * 26 + 50 * (20 * 25 + 1)));

  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] : std::vector<Case>{
           {{"--scheme", "c"}, "--scheme is for --strategy hybrid"},
           {{"--partitions", "2"}, "--partitions is for --strategy hybrid and partitioned"},
           {{"--strategy", "hybrid", "--scheme", "bc", "-n", "4", "--senders", "5"},
            "hybrid.senders is 5; with scheme bc it can be from 1 to grid.partitions, which is 4"},
           {{"--set", "sync.bukket=1MiB"}, "did you mean sync.bucket?"}}) {
    std::vector<std::string> all{"bench", "step", "--model", "lenet"};
    all.insert(all.end(), words.begin(), words.end());
    const JobResult result = Job(all).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
  }
}

TEST(BenchStep, MeasuresTheRecipeThatKeysMake) {
  // The network, its images of 28 x 28, and the batch of both ranks; copies have half of it each.
  const Json row = row_of_step(
      {"--model", "resnet18", "--set", "model.name=lenet", "--set", "training.batch=12"});
  EXPECT_EQ(row.at("model"), "lenet");
  EXPECT_EQ(row.at("batch_per_rank"), 6);
  EXPECT_EQ(row.at("gradient_bytes"), 4 * kLeNet);
  EXPECT_EQ(row_of_step({"--model", "lenet", "--set", "training.batch=7"}).at("batch_per_rank"),
            3.5);
}

TEST(BenchStep, WritesATimeline) {
  const test::Scratch scratch;
  const std::string file = scratch.path("trace.json");
  const Json row = row_of_step({"--model", "lenet", "--bucket-bytes", "64KiB", "--timeline", file});
  constexpr int kSteps = 5, kParameters = 8;
  for (const test::TimelineRows& rank : test::read_timeline(test::slurp(file), 2)) {
    const auto& training = rank.at("training");
    for (const char* phase : {"step", "forward", "backward", "wait for reductions", "update"}) {
      EXPECT_EQ(test::count_spans(training, phase), kSteps) << phase;
    }
    EXPECT_EQ(test::count_spans(training, "copy "), kSteps * kParameters);
    // What is copied into a bucket is what is reduced, and before that.
    std::map<std::int64_t, std::int64_t> copied;
    std::int64_t bytes = 0;
    for (const test::TimelineSpan& span : training) {
      if (!span.name.starts_with("copy ")) continue;
      copied[span.numbers.at("bucket")] += span.numbers.at("bytes").get<std::int64_t>();
      bytes += span.numbers.at("bytes").get<std::int64_t>();
    }
    EXPECT_EQ(bytes, kSteps * row.at("gradient_bytes").get<std::int64_t>());
    EXPECT_EQ(copied.size(), row.at("buckets").get<std::size_t>());
    EXPECT_EQ(rank.size(), copied.size() + 1);
    for (const auto& [name, spans] : rank) {
      if (name == "training") continue;
      EXPECT_EQ(spans.size(), static_cast<std::size_t>(kSteps)) << name;
      const std::int64_t bucket = std::stoll(name.substr(std::string("bucket ").size()));
      for (const test::TimelineSpan& span : spans) {
        EXPECT_EQ(span.name, "reduce bucket " + std::to_string(bucket));
        EXPECT_EQ(span.numbers.at("bytes").get<std::int64_t>() * kSteps, copied[bucket]) << name;
      }
    }
  }
  // It can be drawn.
  const std::string picture = scratch.path("step.svg");
  const std::string draw = "python3 '" + test::source_folder() + "/tools/draw_timeline.py' '" +
                           file + "' > '" + picture + "'";
  ASSERT_EQ(std::system(draw.c_str()), 0);
  const std::string svg = test::slurp(picture);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // Of each rank; what another step has in the same span of time is there as well.
  EXPECT_GE(count(svg, "<title>reduce bucket 0:"), 2);
  EXPECT_GE(count(svg, "<title>forward:"), 2);
}

TEST(BenchStep, ATimelineThatCantBeWrittenIsFoundBeforeTheWork) {
  const JobResult result =
      Job({"bench", "step", "--model", "lenet", "--timeline", "/nowhere/trace.json"}).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("--timeline: can't write /nowhere/trace.json: /nowhere: No such file"),
            std::string::npos)
      << result.err;
}

TEST(BenchStep, NamesTheNearestModel) {
  const JobResult result = Job({"bench", "step", "--model", "resnet5", "-n", "2"}).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("did you mean 'resnet50'"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace convoy::cli
