// What `convoy status` makes of what a coordinator says.
#include "cli/server/status_view.h"

#include <gtest/gtest.h>

#include <sstream>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

JobStatus some_status() {
  JobStatus s;
  s.name = "mnist";
  s.model = "lenet";
  s.initialized = s.backups = true;
  s.phase = "training";
  s.epoch = 2;
  s.epochs = 10;
  s.samples = 150000;
  s.samples_wanted = 600000;
  s.twice = 512;
  s.redone = 1;
  s.outstanding = 4;
  s.replicas_expected = 2;
  s.samples_per_s = 1234.5;
  s.shards = {{0, 1, 2, 3, 12345, 7, 1258291, 12582912, true}, {1, 2, 0, 4, 0, 0, 0, 0, false}};
  s.servers = {{1, "127.0.0.1:30001", 0.2}, {2, "127.0.0.1:30002", 75}};
  s.replicas = {{"replica-0", "replica", 617.2, 76800, 3, "3: 512-1024", 0.1},
                {"a-name-that-is-too-long", "replica", 0, 0, 0, "", 4},
                {"evaluator", "evaluator", 0, 0, 0, "", 0}};
  s.staleness.assign(36, 0);
  s.staleness[0] = 50;
  s.staleness[2] = 30;
  s.staleness[17] = 20;
  return s;
}

TEST(StatusTable, FitsATerminalOf80Columns) {
  std::istringstream lines(status_table(some_status(), 80));
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 80u) << line;
}

TEST(StatusTable, SaysEverything) {
  const std::string text = status_table(some_status(), 80);
  for (const char* part :
       {"mnist (lenet), training\n", "epoch 3 of 10   25%   1,234 samples/s   2 of 2 replicas\n",
        "    0        1       2      3        12,345       7   1.20 MiB     12 MiB\n",
        "    1        2       -      4  does not answer\n", "     1        now  127.0.0.1:30001\n",
        "     2 1 min 15 s  127.0.0.1:30002\n",
        "replica-0             617.2      76,800         3     now  3: 512-1024\n",
        "a-name-that-is-~", "samples    150,000 of 600,000, 512 used twice\n",
        "portions   4 handed out, 1 redone\n",
        "staleness  0: 50%  1: 0%  2: 30%  3: 0%  4-15: 0%  16+: 20%  (100 pushes)\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "is not in:\n" << text;
  JobStatus s = some_status();
  s.epoch = s.epochs;
  EXPECT_NE(status_table(s, 80).find("\nepoch 10 of 10 "), std::string::npos);
  s.ended = "all is trained";
  EXPECT_NE(status_table(s, 80).find("mnist (lenet), ended: all is trained\n"), std::string::npos);
  s = {};
  EXPECT_NE(status_table(s, 80).find("no replica has joined yet"), std::string::npos);
}

TEST(StatusTable, SaysHowFarABatchOptimizationIs) {
  JobStatus s = some_status();
  s.batch = BatchStatus{.iteration = 12,
                        .begun = true,
                        .loss = 0.273125,
                        .gradient_norm = 0.00412,
                        .step = 1,
                        .evaluations = 15,
                        .evaluation = "13.1",
                        .portions = 235,
                        .now = {140, 4, 8, 2},
                        .over = "",
                        .replicas = {{3, "replica-0", {1800, 4, 8, 0}, 75},
                                     {4, "a-name-that-is-too-long", {20, 0, 0, 2}, 0.5}},
                        .gone = 3,
                        .gone_portions = {7, 1, 0, 0},
                        .gone_busy_s = 2};
  s.shards[0].vectors = 24;
  s.shards[0].vector_bytes = 24 << 20;
  s.shards[0].group_bytes = 1 << 20;
  s.shards[0].portions = 141;
  const std::string text = status_table(s, 80);
  for (const char* part :
       {"\niteration 12   loss 0.273125   gradient norm 0.00412   step 1   2 of 2 replicas\n",
        "\nevaluation 13.1   140 of 235 portions, 4 again, 8 copies, 2 unused\n",
        "\n    0       24     24 MiB         1 MiB       141\n",
        "\nreplica-0            1,800         4         8         0  1 min 15 s\n",
        "\na-name-that-is-~        20         0         0         2      500 ms\n",
        "\n3 gone                   7         1         0         0      2.00 s\n",
        "\nevaluations  15 in all iterations\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "is not in:\n" << text;
  EXPECT_EQ(text.find("staleness"), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 80u) << line;
  s.batch->over = "the gradient is small enough";
  EXPECT_NE(status_table(s, 80).find("\nover: the gradient is small enough\n"), std::string::npos);
}

TEST(ReadStatus, TakesWhatACoordinatorSaysOfABatchOptimization) {
  const JobStatus s = read_job_status(R"({
    "job": {"name": "mnist"}, "progress": {}, "servers": [], "clients": [],
    "shards": [{"shard": 0, "report_age_s": 0.5, "vectors": 24, "vector_bytes": 9600,
                "group_bytes": 400, "portions_added": 3}],
    "batch": {"iteration": 2, "loss": 0.5, "gradient_norm": 0.25, "step": 1, "evaluations": 4,
              "evaluation": "3.0", "portions": 8, "portions_done": 3, "portions_again": 1,
              "portions_copied": 2, "portions_unused": 0, "over": null, "replicas": [
                {"replica": 7, "name": "r", "portions_done": 12, "busy_s": 1.5}],
              "gone": {"replicas": 2, "portions_done": 5, "busy_s": 0.5}}
  })");
  ASSERT_TRUE(s.batch);
  EXPECT_EQ(s.batch->iteration, 2u);
  EXPECT_EQ(s.batch->loss, 0.5);
  EXPECT_EQ(s.batch->now.copied, 2u);
  EXPECT_EQ(s.batch->over, "");
  ASSERT_EQ(s.batch->replicas.size(), 1u);
  EXPECT_EQ(s.batch->replicas[0].portions.done, 12u);
  EXPECT_EQ(s.batch->replicas[0].busy_s, 1.5);
  EXPECT_EQ(s.batch->gone, 2u);
  EXPECT_EQ(s.batch->gone_portions.done, 5u);
  EXPECT_EQ(s.shards[0].vectors, 24u);
  EXPECT_EQ(s.shards[0].portions, 3u);
  EXPECT_FALSE(read_job_status(R"({"job": {}, "progress": {}, "servers": [], "clients": [],
                                   "shards": []})")
                   .batch);
}

TEST(ReadStatus, TakesWhatACoordinatorSays) {
  const JobStatus s = read_job_status(R"({
    "job": {"name": "mnist", "phase": "training", "ended": "", "backups": true, "replicas": 2,
            "initialized": true, "epochs": 10, "samples": 0},
    "progress": {"epoch": 2, "epoch_samples": 60000, "samples": 150000, "samples_twice": 512,
                 "portions_redone": 1, "portions_held": 4},
    "shards": [{"shard": 0, "epoch": 3, "primary": 1, "backup": 2, "report_age_s": 0.5,
                "applied": 12345, "backup_lag": 7, "log_bytes": 12582912, "memory_bytes": 1258291,
                "clients": [{"client": 5, "staleness": 3}]},
               {"shard": 1, "epoch": 4, "primary": 2, "backup": 0,
                "clients": [{"client": 5, "staleness": 4}]}],
    "pushes_by_staleness": [50, 0, 30],
    "servers": [{"server": 1, "address": "a:1", "heard_s": 0.25},
                {"server": 2, "address": "", "heard_s": null}],
    "clients": [{"client": 5, "name": "replica-0", "role": "replica", "heard_s": 0.1,
                 "samples_per_s": 617.5, "samples": 7, "leases":
                 [{"portion": 9, "epoch": 2, "begin": 512, "end": 1024}, {"portion": 10, "epoch": 2,
                  "begin": 1024, "end": 1536}]},
                {"client": 6, "name": "e", "role": "evaluator", "samples_per_s": 0, "leases": []}]
  })");
  EXPECT_EQ(s.name + s.phase + s.ended, "mnisttraining");
  EXPECT_EQ(s.samples_wanted, 600000u);
  EXPECT_EQ(s.samples_per_s, 617.5);
  ASSERT_EQ(s.shards.size(), 2u);
  EXPECT_TRUE(s.shards[0].answers);
  EXPECT_EQ(s.shards[0].lag, 7u);
  EXPECT_FALSE(s.shards[1].answers);
  ASSERT_EQ(s.replicas.size(), 2u);
  EXPECT_EQ(s.replicas[0].staleness, 4u);
  EXPECT_EQ(s.replicas[0].portion, "3: 512-1024 +1");
  EXPECT_EQ(s.replicas[1].portion, "");
  EXPECT_EQ(s.servers[0].heard_s, 0.25);
  EXPECT_LT(s.servers[1].heard_s, 0);
  EXPECT_EQ(s.staleness, (std::vector<std::uint64_t>{50, 0, 30}));
}

TEST(ReadStatus, NamesWhatIsMissing) {
  for (const char* text : {"", "[]", "{}", R"({"job": 1})", R"({"job": {"name": 3}})"})
    EXPECT_NE(test::message_of<Failure>([&] { read_job_status(text); }).find("not what"),
              std::string::npos)
        << text;
}

TEST(Ready, IsWhatCanDoWithoutAnother) {
  JobStatus s = some_status();
  EXPECT_EQ(not_ready(s, "coordinator"), "");
  EXPECT_EQ(not_ready(s, "server-1"), "shard 1 does not answer");
  s.shards[1].answers = true;
  EXPECT_EQ(not_ready(s, "job"), "");
  EXPECT_EQ(not_ready(s, "server-1"), "shard 1 has no backup");
  EXPECT_EQ(not_ready(s, "server-2"), "server-2 was last heard 1 min 15 s ago");
  EXPECT_EQ(not_ready(s, "server-3"), "server-3 was never heard of");
  s.shards[1].backup = 1;
  EXPECT_EQ(not_ready(s, "server-1"), "");
  s.shards[0].lag = 1000000;
  EXPECT_EQ(not_ready(s, "server-1"), "the backup of shard 0 lacks 1,000,000 commands");
  s.shards[0].lag = 0;
  s.shards[1].backup = 0;
  s.backups = false;
  EXPECT_EQ(not_ready(s, "server-1"), "");
  s.initialized = false;
  EXPECT_EQ(not_ready(s, "job"), "the parameters have no values yet");
  s.shards[0].primary = 0;
  EXPECT_EQ(not_ready(s, "job"), "shard 0 has no primary");
  EXPECT_NE(test::message_of<UsageError>([&] { not_ready(s, "server-x"); }).find("it can be"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::cli
