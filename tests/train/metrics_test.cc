#include "convoy/train/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

std::string row(int step) { return R"({"kind": "step", "step": )" + std::to_string(step) + "}\n"; }

TEST(Metrics, ARowIsALine) {
  const Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  spill(path, "something old\n");
  MetricsFile file(path, -1);
  EXPECT_EQ(slurp(path), "");
  file.add({"step", 12, {{"loss", 1.25}, {"images_per_s", 1e22}, {"lr", 0.1}, {"count", 3}}, {}});
  EXPECT_EQ(slurp(path),
            "{\"kind\": \"step\", \"step\": 12, \"loss\": 1.25, \"images_per_s\": 1e+22, "
            "\"lr\": 0.1, \"count\": 3}\n");
  const double infinity = std::numeric_limits<double>::infinity();
  file.add({"run", 13, {{"nan", std::nan("")}, {"inf", infinity}}, {{"a\"\n", "caf\xe9\t"}}});
  const std::string text = slurp(path);
  const std::string line = text.substr(text.find('\n') + 1);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_TRUE(json["nan"].is_null() && json["inf"].is_null());
  EXPECT_EQ(json["a\"\n"], "caf\ufffd\t");
}

// By somebody who tidies up while the run goes on.
TEST(Metrics, AFileThatIsRemovedIsMadeAnew) {
  const Scratch scratch;
  const std::string folder = scratch.path("run"), path = folder + "/metrics.jsonl";
  std::filesystem::create_directory(folder);
  MetricsFile file(path, -1);
  EXPECT_TRUE(file.add({"step", 1, {}, {}}));
  std::filesystem::remove(path);
  EXPECT_FALSE(file.add({"step", 2, {}, {}}));
  EXPECT_TRUE(file.add({"step", 3, {}, {}}));
  EXPECT_EQ(slurp(path), row(2) + row(3));
  // With its folder: each row is tried.
  std::filesystem::remove_all(folder);
  const std::string said = message_of<Failure>([&] { file.add({"step", 4, {}, {}}); });
  EXPECT_NE(said.find("cannot write " + path), std::string::npos) << said;
  std::filesystem::create_directory(folder);
  EXPECT_FALSE(file.add({"step", 5, {}, {}}));
  EXPECT_EQ(slurp(path), row(5));
}

TEST(Metrics, NumbersReadBackAsTheyWere) {
  const Scratch scratch;
  MetricsFile file(scratch.path("m"), -1);
  const std::vector<double> numbers = {1.0 / 3, 4.9e-324, 1.7976931348623157e308,
                                       -0.0,    2e-7,     9007199254740993.0};
  for (const double number : numbers) file.add({"step", 1, {{"x", number}}, {}});
  std::ifstream stream(scratch.path("m"));
  std::string line;
  for (const double number : numbers) {
    std::getline(stream, line);
    EXPECT_EQ(nlohmann::json::parse(line)["x"].get<double>(), number) << line;
  }
}

TEST(Metrics, GoesOnAfterTheCheckpoint) {
  const Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  spill(path, row(1) + row(2) + "\n" + "no JSON\n" + "{\"kind\": \"run\"}\n" + row(4) + row(3) +
                  row(5) + row(3).substr(0, 12));
  MetricsFile file(path, 3);
  EXPECT_EQ(slurp(path), row(1) + row(2) + row(3));
  file.add({"step", 4, {}, {}});
  EXPECT_EQ(slurp(path), row(1) + row(2) + row(3) + row(4));
  EXPECT_EQ(test::entries(scratch.path()), 1u);
}

TEST(Metrics, AnIncompleteLastLineGoesWhateverItHolds) {
  const Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  const std::string whole = row(1) + row(2);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    spill(path, whole.substr(0, size));
    const MetricsFile file(path, 9);
    const std::string expected = size == whole.size() ? whole : size >= row(1).size() ? row(1) : "";
    ASSERT_EQ(slurp(path), expected) << size;
  }
}

TEST(Metrics, ManyRows) {
  const Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  std::string all;
  std::string kept;
  for (int step = 0; step < 60'000; ++step) {
    all += row(step);
    if (step <= 50'000) kept += row(step);
  }
  spill(path, all);
  const MetricsFile file(path, 50'000);
  EXPECT_EQ(slurp(path), kept);
}

TEST(Metrics, NoFileIsThereYet) {
  const Scratch scratch;
  MetricsFile file(scratch.path("metrics.jsonl"), 3);
  file.add({"step", 4, {}, {}});
  EXPECT_EQ(slurp(scratch.path("metrics.jsonl")), row(4));
  EXPECT_EQ(message_of<Failure>([&] { MetricsFile(scratch.path("none/m"), 3); }),
            "cannot write " + scratch.path("none/m") + ": No such file or directory");
}

TEST(Metrics, AFullDiskTakesARowWholeOrNotAtAll) {
  const Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  MetricsFile file(path, -1);
  file.add({"step", 1, {}, {}});
  const MetricsRow large{"step", 2, {}, {{"text", std::string(1000, 'x')}}};
  std::string message;
  {
    const test::FileSizeLimit limit(100);  // takes some of the row
    message = message_of<Failure>([&] { file.add(large); });
  }
  EXPECT_EQ(message, "cannot write " + path + ": File too large");
  EXPECT_EQ(slurp(path), row(1));
  file.add({"step", 2, {}, {}});
  EXPECT_EQ(slurp(path), row(1) + row(2));
}

// Where the run was killed between the row and the checkpoint that has the score.
TEST(MetricsFile, AnEvaluationThatIsMadeAgainIsThereOnce) {
  const test::Scratch scratch;
  const std::string path = scratch.path("metrics.jsonl");
  for (const bool evaluated : {true, false}) {
    {
      MetricsFile file(path, -1);
      for (const std::int64_t step : {5, 10}) {
        file.add({.kind = "epoch", .step = step, .numbers = {}, .strings = {}});
        file.add({.kind = "evaluation", .step = step, .numbers = {}, .strings = {}});
      }
    }
    MetricsFile again(path, 10, evaluated);
    const std::string text = slurp(path);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), evaluated ? 4 : 3) << text;
    EXPECT_NE(text.find("\"evaluation\", \"step\": 5"), std::string::npos);
  }
}

}  // namespace
}  // namespace convoy::train
