// The benchmarks run and report what they promise; their figures are not judged here.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "tests/base/scratch.h"
#include "tests/cli/bench_rows.h"
#include "tests/cli/job.h"
#include "tests/data/support.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

TEST(BenchAllreduce, ReportsARowPerAlgorithm) {
  const JobResult result =
      Job({"bench", "allreduce", "-n", "3", "--sizes", "64KiB", "--algorithms",
           "ring-rsag,multicolor k=2,mpi", "--seconds", "0.05", "--measure-limit", "--json", "-"})
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<std::string> algorithms;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    algorithms.push_back(row.at("algorithm"));
    EXPECT_EQ(row.at("bytes"), 65536);
    EXPECT_EQ(row.at("ranks"), 3);
    EXPECT_GT(row.at("median_s").get<double>(), 0);
    EXPECT_GE(row.at("spread_s").get<double>(), 0);
    EXPECT_GT(row.at("ratio_to_mpi").get<double>(), 0);
    EXPECT_GT(row.at("fraction_of_limit").get<double>(), 0);
    EXPECT_EQ(row.at("hosts"), 1);
    EXPECT_EQ(row.at("colors"), row.at("algorithm") == "multicolor" ? 2 : 0);
  }
  EXPECT_EQ(algorithms.size(), 3u) << result.out;
}

TEST(BenchAllreduce, SaysWhichSumsAreReproducible) {
  const JobResult result =
      Job({"bench", "allreduce", "-n", "2", "--sizes", "4KiB", "--algorithms", "shared,ring,mpi",
           "--seconds", "0.001", "--repetitions", "5", "--reproducible", "--json", "-"})
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("reproducible").get<bool>(), row.at("algorithm") != "mpi") << line;
  }
  EXPECT_EQ(rows, 3) << result.out;
}

TEST(BenchShuffle, ReportsARowPerNumberOfGroups) {
  const JobResult result =
      Job({"bench", "shuffle", "-n", "4", "--groups", "1,2,4", "--bytes-per-rank", "8MiB",
           "--record", "10KiB", "--segment", "256KiB", "--repetitions", "1", "--json", "-"})
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<int> groups;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    groups.push_back(row.at("groups"));
    EXPECT_EQ(row.at("ranks"), 4);
    const auto part = row.at("part_bytes").get<double>();
    EXPECT_NEAR(part, groups.back() * (8 << 20), groups.back() * 1.6e6);
    if (groups.back() == 4) {  // every rank holds everything
      EXPECT_EQ(row.at("sent_bytes"), 0);
      continue;
    }
    // All but what stays.
    EXPECT_NEAR(row.at("sent_bytes").get<double>() / part, 1 - groups.back() / 4.0, 0.1);
    EXPECT_GT(row.at("median_s").get<double>(), 0);
    EXPECT_GT(row.at("fraction_of_limit").get<double>(), 0);
    // As the kernel counts, with what the process needs besides; two copies would be twice the
    // part.
    EXPECT_GE(row.at("peak_bytes").get<double>(), part / 2);
    EXPECT_LE(row.at("peak_bytes").get<double>(), part + (2 << 18) + (2 << 20));
  }
  EXPECT_EQ(groups, (std::vector{1, 2, 4})) << result.out;
}

TEST(BenchShuffle, RefusesGroupsThatDoNotDivideTheRanks) {
  const JobResult result = Job({"bench", "shuffle", "-n", "3", "--groups", "2"}).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("3 ranks can't form 2 groups"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(BenchAllreduce, TunesAndUsesWhatItWrote) {
  const test::Scratch scratch;
  const std::string file = scratch.path("rules");
  const JobResult tuned = Job({"bench", "allreduce", "-n", "2", "--tune", file, "--sizes",
                               "4,64KiB,1MiB", "--repetitions", "5", "--seconds", "0.001"})
                              .finish();
  ASSERT_EQ(tuned.exit_status, 0) << tuned.err;
  const std::string rules = test::slurp(file);
  EXPECT_NE(rules.find("ranks=2 nodes=1 "), std::string::npos) << rules;
  const JobResult shown =
      Job({"bench", "allreduce", "-n", "2", "--show-selection"}, {"CONVOY_ALLREDUCE=@" + file})
          .finish();
  ASSERT_EQ(shown.exit_status, 0) << shown.err;
  std::istringstream lines(rules);
  for (std::string rule; std::getline(lines, rule);) {
    const std::size_t at = rule.find("nodes=1 ") + 8;
    EXPECT_NE(shown.out.find(rule.substr(at, rule.find(';') - at)), std::string::npos)
        << rule << " in " << shown.out;
  }
  const JobResult missing = Job({"bench", "allreduce", "-n", "2", "--show-selection"},
                                {"CONVOY_ALLREDUCE=@" + scratch.path("none")})
                                .finish();
  EXPECT_EQ(missing.exit_status, 2);
  EXPECT_NE(missing.err.find("CONVOY_ALLREDUCE, rank 0: "), std::string::npos) << missing.err;
}

TEST(BenchAllreduce, SaysWhatCannotBeUsedHere) {
  const JobResult result =
      Job({"bench", "allreduce", "-n", "2", "--algorithms", "hierarchical"}).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("'hierarchical' can't be used here: it needs several hosts"),
            std::string::npos)
      << result.err;
}

TEST(BenchAllreduce, NamesTheNearestAlgorithm) {
  const JobResult result =
      Job({"bench", "allreduce", "-n", "2", "--algorithms", "multicolr"}).finish();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("did you mean 'multicolor'"), std::string::npos) << result.err;
}

void expect_ablation(std::vector<std::string> how) {
  how.insert(how.begin(),
             {"bench", "ablation", "--repetitions", "1", "--steps", "1", "--json", "-"});
  const JobResult result = Job(how).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_GT(row.at("images_per_s").get<double>(), 0);
    EXPECT_GT(row.at("ratio_to_plain").get<double>(), 0);
  }
  EXPECT_EQ(rows, 4);
}

TEST(BenchAblation, ReportsARowPerSwitch) { expect_ablation({"--model", "lenet", "--batch", "4"}); }

// A network that is made for one size of images.
TEST(BenchAblation, MakesTheNetworkForTheSize) {
  expect_ablation({"--model", "speech-dnn", "--batch", "1", "--image-size", "2"});
}

TEST(BenchOperators, ReportsARowPerKindOfOperator) {
  const JobResult result =
      Job({"bench",     "operators",     "--model", "lenet",   "--batch",  "4",        "--threads",
           "1",         "--repetitions", "2",       "--steps", "2",        "--warmup", "1",
           "--seconds", "0.001",         "--array", "1MiB",    "--layers", "--json",   "-"})
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  std::map<std::string, int> kinds;
  std::map<std::string, std::int64_t> flops, flops_of_shapes;  // by phase
  Json step;
  double operators_s = 0, outside_s = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    const std::string kind = row.at("kind"), phase = row.value("phase", "");
    ++kinds[kind];
    if (kind == "limits") {
      EXPECT_EQ(row.at("model"), "lenet");
      EXPECT_EQ(row.at("threads"), 1);
      expect_positive(row, {"flops_per_s", "product_flops_per_s", "convolution_flops_per_s",
                            "bandwidth_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s",
                            "copy_bytes_per_s", "triad_bytes_per_s"});
    }
    if (kind == "operator") {
      flops[phase] += row.at("flops").get<std::int64_t>();
      operators_s += row.at("time_s").get<double>();
      EXPECT_EQ(row.at("attained").is_null(), row.at("limit_s") == 0) << line;
    }
    if (kind == "shapes") flops_of_shapes[phase] += row.at("flops").get<std::int64_t>();
    if (kind == "outside") outside_s += row.at("time_s").get<double>();
    if (kind == "step") step = row;
  }
  EXPECT_EQ(kinds["limits"], 1) << result.out;
  EXPECT_EQ(kinds["outside"], 4) << result.out;  // three phases, and between them
  EXPECT_EQ(kinds["step"], 1) << result.out;
  // Two convolutions and two fully connected layers, and the gradients of their weights and inputs,
  // but for the images.
  constexpr std::int64_t kFirst = 20 * 24 * 24 * 25;
  constexpr std::int64_t kMacs = kFirst + 50 * 8 * 8 * 20 * 25 + 800 * 500 + 500 * 10;
  EXPECT_EQ(flops, flops_of_shapes);
  EXPECT_EQ(flops["forward"], 2 * 4 * kMacs);
  EXPECT_EQ(flops["backward"], 2 * 4 * (2 * kMacs - kFirst));
  EXPECT_EQ(step.at("flops"), flops["forward"] + flops["backward"]);
  const auto whole = step.at("observed_step_s").get<double>();
  EXPECT_NEAR(operators_s + outside_s, whole, 1e-9);
  double parts = step.at("flops_limit_s");
  for (const auto& [name, seconds] : step.at("beyond_flops_s").items())
    parts += seconds.get<double>();
  EXPECT_NEAR(parts, whole, 1e-9);
  expect_positive(step, {"step_s", "images_per_s", "of_flops_limit", "of_flops_limit_min",
                         "of_limits", "limit_s"});
}

TEST(BenchOperators, SaysWhatItCantMeasure) {
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] : std::vector<Case>{
           {{"--model", "resnet5"}, "did you mean 'resnet50'"},
           {{"--set", "precision=bfloat16"}, "precision is bfloat16; operators are measured"},
           {{"--set", "strategy=hybrid"}, "strategy is hybrid; operators are measured"},
           {{"--set", "sync.devices=2"}, "sync.devices is 2; operators are measured"},
           {{"--array", "64KiB"}, "--array is 64KiB; it takes 1MiB at least"}}) {
    std::vector<std::string> all{"bench", "operators"};
    all.insert(all.end(), words.begin(), words.end());
    const JobResult result = Job(all).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_NE(result.err.find(complaint), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(BenchLoader, ReportsARowPerNumberOfThreads) {
  const test::Scratch scratch;
  namespace fs = std::filesystem;
  const fs::path folder = scratch.path("pictures");
  const fs::path picture = test::source_folder() + "/tests/data/fixtures/large420.jpg";
  for (const char* name : {"a/1.jpg", "a/2.jpg", "b/3.jpg"}) {
    fs::create_directories((folder / name).parent_path());
    fs::copy_file(picture, folder / name);
  }
  // One that was taken sideways: its windows are those of the upright picture.
  data::write_bytes((folder / "b/4.jpg").string(), data::turned(read_file(picture.string()), 6));
  const std::string tar = scratch.path("pictures.tar");
  const JobResult packed = Job({"pack", "--keep", folder.string(), tar}).finish();
  ASSERT_EQ(packed.exit_status, 0) << packed.err;
  const JobResult result =
      Job({"bench", "loader", tar, "--threads", "1,2", "--size", "32", "--batch", "2",
           "--repetitions", "2", "--seconds", "0.05", "--json", "-"})
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<int> threads;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    threads.push_back(row.at("threads"));
    EXPECT_EQ(row.at("repetitions"), 2);
    for (const char* key :
         {"images_per_s", "floor_images_per_s", "fraction_of_floor", "worker_s_per_image"}) {
      EXPECT_GT(row.at(key).get<double>(), 0) << key;
    }
    EXPECT_GE(row.at("wait_s").get<double>(), 0);
  }
  EXPECT_EQ(threads, (std::vector<int>{1, 2}));

  const JobResult wrong = Job({"bench", "loader", scratch.path("nothing.tar")}).finish();
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_NE(wrong.err.find("nothing.tar"), std::string::npos) << wrong.err;
}

TEST(BenchCheckpoint, ReportsOneRow) {
  const test::Scratch scratch;
  const JobResult result = Job({"bench", "checkpoint", "--bytes", "4MB", "-n", "2", "--repetitions",
                                "2", "--step", "0.001", "--folder", scratch.path(), "--json", "-"})
                               .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const auto row = nlohmann::json::parse(result.out);
  EXPECT_EQ(row.at("ranks"), 2);
  EXPECT_EQ(row.at("repetitions"), 2);
  EXPECT_NEAR(row.at("file_bytes").get<double>(), 8e6, 1e5);
  for (const char* key : {"asynchronous_held_s", "synchronous_held_s", "begin_s", "poll_s", "ratio",
                          "asynchronous_written_s", "steps_meanwhile", "step_s"}) {
    EXPECT_GT(row.at(key).get<double>(), 0) << key;
  }
  EXPECT_LE(row.at("asynchronous_held_min_s"), row.at("asynchronous_held_s"));
  EXPECT_LE(row.at("asynchronous_held_s"), row.at("asynchronous_held_max_s"));
  EXPECT_EQ(test::entries(scratch.path()), 0u);

  const JobResult wrong = Job({"bench", "checkpoint", "--folder", scratch.path("none")}).finish();
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_NE(wrong.err.find("--folder: '" + scratch.path("none") + "' is no folder"),
            std::string::npos)
      << wrong.err;
}

}  // namespace
}  // namespace convoy::cli
