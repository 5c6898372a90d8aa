#include "convoy/train/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/train/metrics.h"
#include "tests/base/scratch.h"
#include "tests/train/report_rows.h"
#include "train/report/curve.h"
#include "train/report/html.h"
#include "train/report/parse_row.h"
#include "train/report/run_record.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::Scratch;
using test::spill;

TEST_F(ReportTest, OfOneRun) {
  const std::string page = make_report({usual("first")});
  EXPECT_TRUE(has(page, "done, 100 steps"));
  EXPECT_TRUE(has(page, "98.00% at step 100"));
  EXPECT_TRUE(has(page, "convoy train mine.toml"));
  EXPECT_TRUE(has(page, "name = &quot;mine&quot;"));
  EXPECT_TRUE(has(page, "431,080"));
  EXPECT_TRUE(has(page, "slowest: rank 1 on b"));
  EXPECT_TRUE(has(page, "a × 1, b × 1"));
  // 4 curves over 3 axes each, 3 of times.
  EXPECT_EQ(count(page, "<svg viewBox"), 15);
  EXPECT_EQ(count(page, "</svg>"), 16);
  EXPECT_FALSE(has(page, "not recorded"));
  EXPECT_FALSE(has(page, "rgb(160"));
  // Nothing is loaded from anywhere.
  EXPECT_FALSE(has(page, "http:") || has(page, "https:") || has(page, "<script") ||
               has(page, "<link") || has(page, "@import") || has(page, "url("));
  EXPECT_LT(page.size(), 500'000u);
  EXPECT_TRUE(has(page, "name=\"viewport\""));
  EXPECT_TRUE(has(page, "prefers-color-scheme:dark"));
  EXPECT_TRUE(has(page, "@media print"));
}

// Each iteration takes 10 s: replica 7 works for all of them, 8 for 5 s, and then has a backup.
std::string groups_row(int iteration) {
  const std::string i = std::to_string(iteration);
  return R"({"kind": "groups", "step": )" + i + R"(, "elapsed_s": )" +
         std::to_string(10 * iteration) + R"(, "iteration": [)" + i + ", " + i + ", " + i +
         R"(], "evaluation": [0, 0, 0], "first": [0, 2, 1], "portions": [1, 2, 1],)"
         R"( "replica": [7, 8, 8], "copy": [0, 0, 1], "end": [0, 0, 1], "began_s": [-10, -10, -5],)"
         R"( "ended_s": [0, -5, -3], "replicas": [7, 8], "replica_names": ["<one>", "two"]})"
         "\n";
}

std::string iteration_row(int iteration) {
  return R"({"kind": "iteration", "step": )" + std::to_string(iteration) + R"(, "elapsed_s": )" +
         std::to_string(10 * iteration) +
         R"(, "loss": 0.5, "gradient_norm": 0.25, "step_length": 1, "evaluations": 1,)"
         R"( "portions": 3, "portions_again": 0, "portions_copied": 1, "portions_unused": 1,)"
         R"( "restarted": 0})"
         "\n";
}

TEST_F(ReportTest, OfABatchOptimization) {
  std::string metrics = run_row();
  for (int iteration = 1; iteration <= 5; ++iteration)
    metrics +=
        step_row(iteration, 1.0 / iteration, 10) + iteration_row(iteration) + groups_row(iteration);
  // It goes on behind iteration 4 and loses a replica.
  metrics += run_row(4) + replaced(groups_row(5), "\"end\": [0, 0, 1]", "\"end\": [0, 2, 1]");
  metrics += R"({"kind": "groups", "step": 5, "elapsed_s": 1, "iteration": [5], "first": []})"
             "\n";
  const RunRecord run = read_run(make_run("batch", metrics));
  EXPECT_EQ(run.groups.size(), 15u);
  EXPECT_EQ(run.iterations.size(), 4u);
  EXPECT_EQ(run.groups[4].began_s, 10);
  EXPECT_EQ(run.groups[5].ended_s, 17);
  const std::string page = make_report({run.folder});
  for (const char* part :
       {"Who had which portions when", "Groups of portions by replica, iterations 3 to 5",
        "done first", "a backup that was not needed", "lost",
        "Idle: time without portions, mean of the replicas",
        "<td>&lt;one&gt;</td><td>5</td><td>5</td><td>0</td><td>0</td><td>0</td><td>50.0 s</td>"
        "<td>0%</td>",
        "<td>two</td><td>10</td><td>8</td><td>5</td><td>5</td><td>2</td><td>35.0 s</td>"
        "<td>30%</td>",
        "Iterations (4)"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_FALSE(has(page, "a backup that was done first"));
  // Two of one name at once: they stand beside each other.
  std::string alike = metrics;
  while (has(alike, "<one>")) alike = replaced(alike, "<one>", "two");
  EXPECT_TRUE(has(make_report({make_run("alike", alike)}), "<td>two (2)</td>"));
  EXPECT_FALSE(has(page, "Where the time of a step went"));
  EXPECT_FALSE(has(make_report({usual("usual")}), "Who had which portions"));
}

// Who has nothing in some iterations was there all the same.
TEST_F(ReportTest, AReplicaWithoutPortionsIsIdle) {
  std::string metrics = run_row();
  for (int iteration = 1; iteration <= 5; ++iteration) {
    metrics += step_row(iteration, 1, 10) + iteration_row(iteration) + groups_row(iteration);
    if (iteration != 2 && iteration != 4) continue;
    const std::string i = std::to_string(iteration);
    metrics += R"({"kind": "groups", "step": )" + i + R"(, "elapsed_s": )" +
               std::to_string(10 * iteration) + R"(, "iteration": [)" + i +
               R"(], "evaluation": [0], "first": [3], "portions": [1], "replica": [9],)"
               R"( "copy": [0], "end": [0], "began_s": [-10], "ended_s": [-5],)"
               R"( "replicas": [9], "replica_names": ["three"]})"
               "\n";
  }
  const std::string page = make_report({make_run("idle", metrics)});
  EXPECT_TRUE(has(page,
                  "<td>three</td><td>2</td><td>2</td><td>0</td><td>0</td><td>0</td>"
                  "<td>10.0 s</td><td>66.7%</td>"));
}

// Its rows are the evaluator's, which is no rank of those that train.
TEST_F(ReportTest, OfAJobAroundAParameterServer) {
  const std::string run = make_run("job", replaced(run_row_on(1), "\"unit\"",
                                                   "\"strategy\": \"sandblaster\", \"shares\": 1, "
                                                   "\"partitions\": 1, \"unit\"") +
                                              step_row(1, 1));
  spill(run + "/recipe.toml",
        "strategy = \"sandblaster\"\n[sandblaster]\nreplicas = 3\nshards = 2\n");
  const std::string page = make_report({run});
  EXPECT_TRUE(has(page, "<dt>replicas</dt><dd>3</dd>")) << page;
  EXPECT_TRUE(has(page, "<dt>shards</dt><dd>2</dd>"));
  EXPECT_TRUE(has(page, "<dt>evaluator's host</dt>"));
  for (const char* of_ranks : {"<dt>ranks</dt>", "<dt>grid</dt>", "hosts × ranks", "Learning rate"})
    EXPECT_FALSE(has(page, of_ranks)) << of_ranks;
  EXPECT_TRUE(has(page, "Length of a step"));
  // Beside others it is no run on one rank to which theirs are compared.
  const std::string both = make_report({run, usual("usual")});
  EXPECT_TRUE(has(both, "<td>3 replicas</td>"));
  EXPECT_TRUE(has(both, "Learning rate, or length of a step"));
  EXPECT_FALSE(has(both, "Speed-up"));
  // Also where the evaluator is as many ranks as a replica.
  const std::string divided =
      make_run("divided",
               replaced(run_row_on(2), "\"unit\"",
                        "\"strategy\": \"downpour\", \"shares\": 2, \"partitions\": 2, \"unit\"") +
                   step_row(1, 1));
  spill(divided + "/recipe.toml", "strategy = \"downpour\"\n[downpour]\nreplicas = 3\n");
  EXPECT_TRUE(has(make_report({divided, usual("other")}), "<td>downpour, 3 × 2</td>"));
}

TEST_F(ReportTest, EvaluationsOnTrainingDataAreNoValidation) {
  std::string run = run_row();
  run.insert(run.find("\"step\""), R"("evaluated": "data.train", )");
  const std::string metrics = step_row(1, 2) + step_row(2, 1) + evaluation_row(2, 0.5);
  const std::string page = make_report({make_run("training", run + metrics)});
  EXPECT_TRUE(has(page, "Evaluation top-1"));
  EXPECT_TRUE(has(page, "evaluation images"));
  EXPECT_FALSE(has(page, "alidation"));
  EXPECT_TRUE(has(make_report({make_run("usual", run_row() + metrics)}), "Validation top-1"));
}

TEST_F(ReportTest, OfSeveralRuns) {
  const std::string page = make_report({usual("slow", 0.2, 0.95), usual("fast", 0.1)});
  EXPECT_TRUE(has(page, "Time to top-1"));
  EXPECT_TRUE(has(page, "≥ 98%"));
  EXPECT_TRUE(has(page, "<b>5.00 s</b>")) << "90% at step 50 of 0.1 s";
  EXPECT_TRUE(has(page, "10.0 s <span"));
  EXPECT_FALSE(has(page, "Speed-up")) << "both have two ranks";
}

TEST_F(ReportTest, SaysWhatDiffersInTheRecipes) {
  const std::string one = usual("one"), two = usual("two", 0.05);
  spill(one + "/recipe.toml",
        "name = \"one\"\nseed = 1  # of all\n[optimizer]\nlr = 0.1\n[grid]\npartitions = 1\n"
        "[data]\nmean = [0.485, 0.229]\n");
  spill(two + "/recipe.toml",
        "name = \"two\"\nseed = 1\n[optimizer]\nlr = 0.2\n[grid]\npartitions = 4\n"
        "[hybrid]\nscheme = \"<b>\"\n");
  const std::string file = two + "/metrics.jsonl";
  spill(file, replaced(replaced(test::slurp(file), "\"ranks\": 2", "\"ranks\": 8"), "\"unit\"",
                       "\"strategy\": \"hybrid\", \"partitions\": 4, \"unit\""));
  const std::string page = make_report({one, two});
  EXPECT_TRUE(has(page, "<td>hybrid, 2 × 4</td>"));
  const std::string from = page.substr(page.find("What differs in the recipes"));
  const std::string part = from.substr(0, from.find("</table>"));
  EXPECT_TRUE(has(part, "<code>optimizer.lr</code></th><td>0.1</td><td>0.2</td>")) << part;
  EXPECT_TRUE(has(part, "<code>data.mean</code></th><td>[0.485, 0.229]</td>")) << part;
  EXPECT_TRUE(has(part, "<code>grid.partitions</code></th><td>1</td><td>4</td>")) << part;
  EXPECT_TRUE(has(part, "<code>hybrid.scheme</code></th><td><span class=\"soft\">–</span></td>"));
  EXPECT_FALSE(has(part, "<b>")) << part;
  EXPECT_FALSE(has(part, "<code>seed</code>")) << part;
  EXPECT_FALSE(has(part, "<code>name</code>")) << part;
  // A curve for each strategy.
  EXPECT_TRUE(has(page, "Scaling of lenet"));
  EXPECT_TRUE(has(page, "</i>hybrid</span>"));
  EXPECT_EQ(Report({two}).figures().runs[0].strategy, "hybrid");
  // The same recipe, or none that can be read.
  EXPECT_FALSE(has(make_report({usual("a"), usual("b")}), "What differs"));
}

// Whatever stands in files stays text, for the page and for gnuplot.
TEST_F(ReportTest, NothingInFilesIsMarkup) {
  const std::string evil =
      "<script>alert(1)</script>'\"`$(touch owned)\x02"
      "0\x03\n!touch owned\n";
  std::string metrics = run_row();
  const std::string json =
      R"(<script>alert(1)</script>'\"`touch owned`\n!touch owned\u00022\u0003)";
  for (const std::string key : {"lenet", "images", "convoy train mine.toml", "\"a\"", "top-1"}) {
    const bool quoted = key.front() == '"';
    metrics.replace(metrics.find(key), key.size(), quoted ? "\"" + json + "\"" : json);
  }
  for (int step = 1; step <= 20; ++step) metrics += step_row(step, 1.0 / step) + ranks_row(step);
  metrics += evaluation_row(20, 0.5);
  metrics += R"({"kind": "slow_rank", "step": 3, "rank": 1, "own_s": 1, "others_s": 1, "host": ")" +
             json + R"(", "phase": ")" + json + "\"}\n";
  metrics += R"({"kind": "checkpoint", "step": 3, "path": ")" + json + "\"}\n";
  metrics += R"({"kind": "evaluation", "step": 20, ")" + json + R"(": 0.5})" + "\n";
  const std::string a = make_run("<img src=x onerror=alert(1)>", metrics, evil);
  const std::string b = make_run("'; system \"touch owned\"; '", metrics, evil);
  for (const auto& runs : {std::vector{a}, std::vector{a, b}}) {
    const std::string page = make_report(runs);
    EXPECT_FALSE(has(page, "<script") || has(page, "<img"));
    EXPECT_TRUE(has(page, "&lt;script&gt;"));
    EXPECT_FALSE(has(page, "&amp;lt;"));
    // Escaped or replaced, wherever it stands; nothing in it is taken for a picture's place.
    EXPECT_FALSE(has(page, "\x02") || has(page, "\x03"));
  }
  EXPECT_FALSE(fs::exists("owned"));
}

TEST_F(ReportTest, OfARunThatWasKilledAndResumed) {
  std::string metrics = run_row();
  for (int step = 1; step <= 60; ++step) metrics += step_row(step, 1000 + step);
  metrics += run_row(40);
  for (int step = 41; step <= 80; ++step) metrics += step_row(step, step);
  metrics += "no JSON\n" + step_row(81, 3).substr(0, 30);  // being written
  const RunRecord run = read_run(make_run("resumed", metrics));
  EXPECT_EQ(run.parts.size(), 2u);
  ASSERT_EQ(run.steps.step.size(), 80u);
  for (std::size_t i = 0; i < 80; ++i) {
    ASSERT_EQ(run.steps.step[i], i + 1.0);
    ASSERT_EQ(run.steps.loss[i], i < 40 ? 1001.0 + static_cast<double>(i) : i + 1.0);
  }
  const std::string page = make_report({run.folder});
  EXPECT_TRUE(has(page, "ended after 80 of 100 steps"));
  EXPECT_TRUE(has(page, "in 2 parts"));
  EXPECT_TRUE(has(page, "1 lines of metrics.jsonl can&#39;t be read"));
}

TEST_F(ReportTest, SaysWhatIsMissing) {
  EXPECT_TRUE(has(make_report({make_run("empty", "")}), "no update was recorded"));
  EXPECT_TRUE(has(make_report({make_run("begun", run_row())}), "no update was recorded"));
  EXPECT_TRUE(has(make_report({make_run("bare", step_row(1, 1), "")}), "there is no recipe.toml"));
  const std::string recipe_only = scratch_.path("recipe-only");
  fs::create_directories(recipe_only);
  spill(recipe_only + "/recipe.toml", "name = 1");
  EXPECT_TRUE(has(make_report({recipe_only}), "there is no metrics.jsonl"));
  // As versions before wrote them.
  const std::string old =
      make_run("old",
               "{\"kind\": \"step\", \"step\": 1, \"epoch\": 1, \"loss\": 2, \"learning_rate\": 1, "
               "\"images_per_s\": 5, \"data_s\": 1}\n{\"kind\": \"evaluation\", \"step\": 1, "
               "\"epoch\": 1, \"top1\": 0.5, \"loss\": 1}\n");
  const std::string page = make_report({old});
  EXPECT_TRUE(has(page, "an older version wrote it"));
  EXPECT_TRUE(has(page, "50.00%"));
  EXPECT_TRUE(has(page, "not recorded"));
  // With one that has everything beside it.
  EXPECT_TRUE(has(make_report({old, usual("whole")}), "2 runs"));
}

// A run row that doesn't say where it goes on takes nothing away.
TEST_F(ReportTest, OfRowsThatAreBroken) {
  for (const char* resumed : {"null", "-3", "1e300", "\"40\""}) {
    const std::string row = replaced(kRun, "RESUMED", resumed) + "\n";
    const RunRecord run =
        read_run(make_run("broken", run_row() + steps_at(1, 40, 0.1) + evaluation_row(40, 0.5) +
                                        row + steps_at(41, 45, 0.1)));
    EXPECT_EQ(run.steps.step.size(), 45u) << resumed;
    EXPECT_EQ(run.evaluations.size(), 1u) << resumed;
    EXPECT_EQ(run.parts.back().resumed_at, 40) << resumed;
  }
  const std::string odd = make_run(
      "odd", replaced(run_row(), "\"steps\": 100", "\"steps\": 1e300") + steps_at(1, 40, 0.1) +
                 R"({"kind": "checkpoint", "step": 3, "path": "x", "copied_bytes": 1e300})" + "\n" +
                 replaced(ranks_row(10), "\"steps\": 10", "\"steps\": null") +
                 replaced(ranks_row(10), "\"steps\": 10", "\"steps\": 1e300"));
  EXPECT_EQ(read_run(odd).planned_steps(), 0);
  EXPECT_TRUE(read_run(odd).ranks.empty());
  EXPECT_TRUE(has(make_report({odd}), "40 steps"));
}

TEST_F(ReportTest, OfValuesWithoutAnExtent) {
  EXPECT_TRUE(
      has(make_report({make_run("zero", "{\"kind\": \"step\", \"step\": 0}\n")}), "</svg>"));
  std::string idle = run_row() + steps_at(1, 20, 0.1);
  for (const int step : {10, 20}) {
    idle += R"({"kind": "ranks", "step": )" + std::to_string(step) +
            R"(, "steps": 10, "data_s": [0, 0], "forward_s": [0, 0], "backward_s": [0, 0], )"
            R"("exposed_communication_s": [0, 0], "update_s": [0, 0]})"
            "\n";
  }
  EXPECT_TRUE(has(make_report({make_run("idle", idle)}), "Phases by rank"));
  const std::string huge =
      R"({"kind": "step", "step": 5, "epoch": 1e308, "elapsed_s": 1e308, "loss": 1e308})"
      "\n";
  EXPECT_TRUE(
      has(make_report({make_run("huge", run_row() + steps_at(1, 4, 0.1) + huge)}), "</svg>"));
}

// Phases lie on each other: one that wasn't recorded, or not always, moves none of the others.
TEST_F(ReportTest, APhaseThatIsMissingMovesNoOther) {
  std::string metrics = run_row(), whole = run_row();
  for (int step = 1; step <= 400; ++step) {
    const std::string row = step_row(step, 1);
    whole += replaced(row, "\"forward_s\": 0.03", "\"forward_s\": 0");
    metrics += step % 3 == 0 ? replaced(row, "\"forward_s\": 0.03", "\"forward_s\": 0")
                             : replaced(row, "\"forward_s\": 0.03, ", "");
  }
  const auto picture = [](const std::string& page) {
    const std::size_t at = page.find("time per step by phase, over the run");
    return page.substr(at, page.find("</svg>", at) - at);
  };
  const std::string page = make_report({make_run("whole", whole)});
  EXPECT_EQ(picture(make_report({make_run("some", metrics)})), picture(page));
}

TEST_F(ReportTest, WhatIsNoRun) {
  const auto said = [](const std::string& path) {
    return message_of<UsageError>([&] { make_report({path}); });
  };
  EXPECT_TRUE(has(said(scratch_.path("nowhere")), "there is no folder"));
  fs::create_directories(scratch_.path("other"));
  EXPECT_TRUE(has(said(scratch_.path("other")), "neither metrics.jsonl nor recipe.toml"));
}

TEST_F(ReportTest, ValuesThatAreNoNumbers) {
  std::string metrics = run_row();
  for (int step = 1; step <= 30; ++step) {
    metrics += R"({"kind": "step", "step": )" + std::to_string(step) +
               R"(, "epoch": null, "elapsed_s": null, "loss": null, "learning_rate": 1e308})" +
               "\n";
  }
  metrics += R"({"kind": "step", "step": 1e300})"
             "\n"
             R"({"kind": "step", "step": -4})"
             "\n"
             R"({"kind": "ranks", "step": 4, "steps": 0, "data_s": [1]})"
             "\n"
             R"({"kind": "ranks", "step": 4, "steps": 5, "data_s": [1], "forward_s": [1, 2]})"
             "\n"
             R"({"kind": "evaluation", "step": 5, "top1": null})"
             "\n[1, 2]\n{\"kind\": 3}\n";
  EXPECT_TRUE(has(make_report({make_run("odd", metrics)}), "30 of 100 steps"));
}

// Of a long run: what can be seen stays, and the page stays small.
TEST_F(ReportTest, LongRunsAreThinned) {
  constexpr int kSteps = 200'000;
  std::string metrics = run_row();
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.1);
  for (int step = 1; step <= kSteps; ++step)
    metrics += step_row(step, step == 123'456 ? 777 : 2 + noise(random));
  const std::string folder = make_run("long", metrics);
  const std::string page = make_report({folder});
  EXPECT_LT(page.size(), 600'000u);
  const RunRecord run = read_run(folder);
  const Curve curve = thin(run.steps.step, run.steps.loss, 320);
  EXPECT_LE(curve.x.size(), 4u * 320);
  EXPECT_EQ(*std::max_element(curve.y.begin(), curve.y.end()), 777);
}

TEST(Curve, KeepsFirstLeastGreatestAndLast) {
  std::vector<double> x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(i);
    y.push_back(i == 501 ? 50 : i == 507 ? -50 : std::sin(i));
  }
  y[3] = std::nan("");
  const Curve curve = thin(x, y, 10);
  EXPECT_EQ(curve.x.front(), 0);
  EXPECT_EQ(curve.x.back(), 999);
  EXPECT_LE(curve.x.size(), 40u);
  EXPECT_TRUE(std::is_sorted(curve.x.begin(), curve.x.end()));
  EXPECT_EQ(*std::max_element(curve.y.begin(), curve.y.end()), 50);
  EXPECT_EQ(*std::min_element(curve.y.begin(), curve.y.end()), -50);
  const Curve all = thin(x, y, 100'000);
  EXPECT_EQ(all.x.size(), 999u);
  EXPECT_TRUE(thin({}, {}, 5).x.empty());
  EXPECT_EQ(thin({1}, {2}, 5).x.size(), 1u);
  EXPECT_EQ(means(x, y, 10).x.size(), 10u);
  EXPECT_TRUE(means({1, 2}, {1, 2}, 10).x.empty());
}

TEST(Html, EscapesWhateverItIs) {
  EXPECT_EQ(escaped("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  EXPECT_EQ(escaped("caf\xc3\xa9 \xe2\x89\xa5"), "caf\xc3\xa9 \xe2\x89\xa5");
  EXPECT_EQ(escaped(std::string("\xe9\xff\0\x1b"
                                "a",
                                5)),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "a");
  EXPECT_EQ(escaped("\xe2\x89"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-123), "-123");
  EXPECT_EQ(count_text(std::nan("")), "?");
}

TEST(Rows, AreReadAsTheyWereWritten) {
  const Scratch scratch;
  MetricsRow row{.kind = "ranks",
                 .step = 12,
                 .numbers = {{"a", 0.25}, {"b", -3}},
                 .strings = {{"c", "d\n"}},
                 .lists = {{"e", {1, 2.5}}, {"f", {3}}},
                 .names = {{"g", {"h", "i"}}}};
  MetricsFile(scratch.path("m"), -1).add(row);
  std::string line = test::slurp(scratch.path("m"));
  line.pop_back();
  RowParser parser;
  for (int i = 0; i < 2; ++i) {  // again: nothing is left of the line before
    const MetricsRow* read = parser.parse(line);
    ASSERT_NE(read, nullptr);
    EXPECT_EQ(read->kind, row.kind);
    EXPECT_EQ(read->step, row.step);
    EXPECT_EQ(read->numbers, row.numbers);
    EXPECT_EQ(read->strings, row.strings);
    EXPECT_EQ(read->lists, row.lists);
    EXPECT_EQ(read->names, row.names);
  }
  for (const char* bad : {"", "3", "[1]", "{\"kind\": \"step\"}", "{\"step\": 4}", "{\"kind\": 1",
                          "{\"kind\": \"step\", \"step\": \"4\"}", "null"})
    EXPECT_EQ(parser.parse(bad), nullptr) << bad;
  const MetricsRow* nested =
      parser.parse(R"({"kind": "x", "step": 1, "a": {"b": 2, "c": [3]}, "d": [[4], 5, {"e": 6}]})");
  ASSERT_NE(nested, nullptr);
  EXPECT_TRUE(nested->numbers.empty());
  ASSERT_EQ(nested->lists.size(), 1u);
  EXPECT_EQ(nested->lists[0].second, (std::vector<double>{5}));
}

}  // namespace
}  // namespace convoy::train
