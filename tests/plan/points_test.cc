// plan/points.jsonl.
#include "convoy/plan/points.h"

#include <gtest/gtest.h>

#include <limits>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace {

using namespace convoy::plan;
using convoy::Failure;
using convoy::UsageError;
using namespace convoy::test;

const PlanHeader kHeader{"9f0c", "train_loss", {0.3, 0.1}};

PointRun some_run(std::uint64_t seed = 1) {
  return {64, 0.1 + 0.2, seed, 900, 12.5, false, {{0.3, 410}}};
}

TEST(Points, AreThereAgainAfterAResume) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  {
    PointsFile file(path, kHeader);
    file.add(some_run(std::numeric_limits<std::uint64_t>::max()));
    file.add(TimeSample{64, 0.0123});
    file.add(CommunicationSample{4, 1e-300});
    file.add(CommunicationSample{4, 0.5, 256, 0.75});
    file.add(CommunicationSample{4, 0.5, 256, 0.75, 2});
    EXPECT_EQ(file.points().runs.size(), 1u);
  }
  PointsFile file(path, kHeader);
  const PlanPoints& points = file.points();
  EXPECT_EQ(points.header, kHeader);
  ASSERT_EQ(points.runs.size(), 1u);
  EXPECT_EQ(points.runs[0], some_run(std::numeric_limits<std::uint64_t>::max()));
  ASSERT_EQ(points.times.size(), 1u);
  EXPECT_EQ(points.times[0].seconds, 0.0123);
  ASSERT_EQ(points.communication.size(), 3u);
  EXPECT_EQ(points.communication[1].host_workers, 0);
  EXPECT_EQ(points.communication[2].host_workers, 2);
  EXPECT_EQ(points.communication[0].seconds, 1e-300);
  EXPECT_EQ(points.communication[0].batch, 0);
  EXPECT_EQ(points.communication[1].batch, 256);
  EXPECT_EQ(points.communication[0].update_s, 0);
  EXPECT_EQ(points.communication[1].update_s, 0.75);
  EXPECT_TRUE(points.has(64, 0.1 + 0.2, std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(points.has(64, 0.1 + 0.2, 1));
  EXPECT_FALSE(points.has(64, 0.3, std::numeric_limits<std::uint64_t>::max()));
  file.add(some_run(2));
  EXPECT_EQ(points_of_text(slurp(path)).runs.size(), 2u);
}

TEST(Points, TheLastLineOfARunCounts) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  PointRun run = some_run(2);
  {
    PointsFile file(path, kHeader);
    run.stopped = Stop::budget;
    for (const std::uint64_t seed : {1, 2, 3}) {
      run.seed = seed;
      file.add(run);
    }
    run = some_run(2);
    run.updates = 2000, run.reached.emplace_back(0.1, 1800), run.stopped = Stop::none;
    file.add(run);
    ASSERT_EQ(file.points().runs.size(), 3u);
    EXPECT_EQ(file.points().runs[1], run);
  }
  const PlanPoints points = points_of_text(slurp(path));
  ASSERT_EQ(points.runs.size(), 3u);
  EXPECT_EQ(points.runs[1], run);
  EXPECT_EQ(points.runs[2].stopped, Stop::budget);
  ASSERT_NE(points.find(64, 0.1 + 0.2, 2), nullptr);
  EXPECT_EQ(points.find(64, 0.1 + 0.2, 2)->updates, 2000);
  EXPECT_EQ(points.find(64, 0.1 + 0.2, 4), nullptr);
  for (const Stop stop : {Stop::none, Stop::limit, Stop::hopeless, Stop::budget}) {
    run.stopped = stop;
    PointsFile(path, kHeader).add(run);
    EXPECT_EQ(points_of_text(slurp(path)).runs[1].stopped, stop);
  }
}

TEST(Points, TimesAreOfTheMachineThatWasLastNamed) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  const auto seconds = [](const PlanPoints& points) {
    std::vector<double> all;
    for (const TimeSample& time : points.times) all.push_back(time.seconds);
    return all;
  };
  {
    PointsFile file(path, kHeader);
    file.add(TimeSample{64, 1});  // before machines were named
    file.move_to("one");
    file.add(TimeSample{64, 2});
    file.add(CommunicationSample{2, 0.5});
    file.move_to("two");
    file.move_to("two");
    EXPECT_TRUE(file.points().times.empty() && file.points().communication.empty());
    file.add(TimeSample{64, 3});
    EXPECT_EQ(message_of<UsageError>([&] { file.move_to(""); }),
              "the name of a machine is empty; it must say which it is");
  }
  PointsFile file(path, kHeader);
  EXPECT_EQ(file.points().machine, "two");
  EXPECT_EQ(seconds(file.points()), std::vector<double>{3});
  EXPECT_EQ(file.points().elsewhere.at("one").times.size(), 2u);
  file.move_to("one");
  EXPECT_EQ(seconds(file.points()), (std::vector<double>{1, 2}));
  EXPECT_EQ(file.points().communication.size(), 1u);
  const PlanPoints points = points_of_text(slurp(path));
  EXPECT_EQ(points.machine, "one");
  EXPECT_EQ(seconds(points), (std::vector<double>{1, 2}));
  EXPECT_EQ(points.elsewhere.at("two").times.size(), 1u);
  EXPECT_EQ(points.elsewhere.size(), 1u);
}

TEST(Points, OneRunServesEveryTarget) {
  PlanPoints points;
  points.header = kHeader;
  points.runs = {some_run(), {32, 0.1, 5, 50, 1, true, {}}, {16, 0.1, 5, 50, 1, true, {{0.3, 40}}}};
  const auto easy = points.updates(0.3);
  ASSERT_EQ(easy.size(), 3u);
  EXPECT_EQ(easy[0].updates, 410);
  EXPECT_TRUE(easy[0].reached);
  EXPECT_TRUE(easy[1].diverged);
  EXPECT_TRUE(easy[2].reached && !easy[2].diverged) << "what comes later doesn't count";
  const auto hard = points.updates(0.1);
  EXPECT_EQ(hard[0].updates, 900);
  EXPECT_FALSE(hard[0].reached);
  EXPECT_TRUE(hard[2].diverged);
  EXPECT_EQ(message_of<UsageError>([&] { (void)points.updates(0.2); }),
            "the target 0.2 was not measured; there are 0.3, 0.1");
}

TEST(Points, AKilledPlanLosesTheLineItWasWriting) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  std::string whole;
  {
    PointsFile file(path, kHeader);
    file.add(some_run(1));
    whole = slurp(path);
    file.add(some_run(2));
  }
  const std::string all = slurp(path);
  for (std::size_t size = 0; size < all.size(); size += size + 5 < whole.size() ? 13 : 7) {
    spill(path, all.substr(0, size));
    PointsFile file(path, kHeader);
    const std::size_t runs = size >= whole.size() ? 1 : 0;
    ASSERT_EQ(file.points().runs.size(), runs) << size;
    file.add(some_run(3));
    ASSERT_EQ(points_of_text(slurp(path)).runs.size(), runs + 1) << size;
  }
}

TEST(Points, OfAnotherPlanAreRefused) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  { PointsFile file(path, kHeader); }
  const auto message = [&](const PlanHeader& header) {
    return message_of<UsageError>([&] { PointsFile file(path, header); });
  };
  EXPECT_EQ(message(kHeader), "");
  EXPECT_EQ(message({"9f0d", "train_loss", {0.3, 0.1}}),
            path +
                " has points of another plan (its fingerprint differs); name another folder, or "
                "remove it");
  EXPECT_NE(message({"9f0c", "loss", {0.3, 0.1}}).find("its metric differs"), std::string::npos);
  EXPECT_NE(message({"9f0c", "train_loss", {0.3}}).find("its targets differ"), std::string::npos);
  EXPECT_EQ(message({"9f0c", "train_loss", {}}), "targets must be a list of one or more");
  EXPECT_EQ(message({"9f0c", "train_loss", {1, 1}}), "targets must differ");
  const PointsFile open(path, kHeader);
  EXPECT_EQ(message(kHeader), path + " is in use by another process; one at a time can add to it");
}

TEST(Points, BadLinesAreNamed) {
  const std::string plan =
      R"({"kind": "plan", "version": 1, "fingerprint": "", "metric": "m", "targets": [1]})"
      "\n";
  const auto message = [&](const std::string& line) {
    return message_of<UsageError>([&] { (void)points_of_text(plan + line + "\n", "a/p.jsonl"); });
  };
  const std::string run =
      R"({"kind":"run","batch":2,"learning_rate":0.1,"seed":0,"updates":9,"seconds":1,"diverged":false,"reached":[]})";
  EXPECT_EQ(message(run), "");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = run;
    return message(line.replace(line.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("\"batch\":2", "\"batch\":0"),
            "p.jsonl:2: batch is 0; it must be an integer of 1 or more");
  EXPECT_EQ(changed("\"batch\":2", "\"batch\":1.5"), "p.jsonl:2: batch must be an integer");
  EXPECT_EQ(changed("\"batch\":2", "\"batch\":18446744073709551615"),
            "p.jsonl:2: batch must be an integer");
  EXPECT_EQ(changed("\"batch\":2,", ""), "p.jsonl:2: batch must be an integer");
  EXPECT_EQ(changed("0.1", "-0.1"),
            "p.jsonl:2: learning_rate is -0.1; it must be a number above 0");
  EXPECT_EQ(changed("\"seed\":0", "\"seed\":-1"),
            "p.jsonl:2: seed must be an integer of 0 or more");
  EXPECT_EQ(changed("false", "0"), "p.jsonl:2: diverged must be true or false");
  EXPECT_EQ(changed("[]", "[[1,9]]"), "");
  EXPECT_EQ(changed("[]", "[[1,10]]"),
            "p.jsonl:2: the number of updates to a target is 10; it must be at most those of the "
            "run, 9");
  EXPECT_EQ(changed("[]", "[[2,3]]"),
            "p.jsonl:2: a target reached is 2; it must be one of the plan's, once");
  EXPECT_EQ(changed("[]", "[[1,3],[1,4]]"),
            "p.jsonl:2: a target reached is 1; it must be one of the plan's, once");
  EXPECT_EQ(changed("[]", "[1]"), "p.jsonl:2: reached must be a list of [target, updates]");
  EXPECT_EQ(changed("\"run\"", "\"walk\""),
            "p.jsonl:2: 'walk' is no kind of point; there are run, machine, time and "
            "communication");
  EXPECT_EQ(changed("}", ",\"stopped\":\"limit\"}"), "");
  EXPECT_EQ(changed("}", ",\"stopped\":\"now\"}"),
            "p.jsonl:2: stopped is 'now'; it must be limit, hopeless or budget");
  EXPECT_EQ(changed("}", ",\"stopped\":1}"), "p.jsonl:2: stopped must be a text");
  EXPECT_EQ(message(R"({"kind":"machine","name":""})"),
            "p.jsonl:2: the name of a machine is empty; it must say which it is");
  EXPECT_EQ(message("[]"), "p.jsonl:2: a line must be an object of JSON");
  EXPECT_EQ(message("{"), "p.jsonl:2: a line must be an object of JSON");
  EXPECT_EQ(message(R"({"kind":"time","samples":0,"seconds":1})"),
            "p.jsonl:2: samples is 0; it must be an integer of 1 or more");
  EXPECT_EQ(message(R"({"kind":"communication","workers":1,"seconds":1})"),
            "p.jsonl:2: workers is 1; it must be an integer of 2 or more");
  EXPECT_EQ(message(R"({"kind":"communication","workers":2,"seconds":1,"batch":1.5})"),
            "p.jsonl:2: batch must be an integer");
  EXPECT_EQ(message_of<UsageError>([] { (void)points_of_text("", "p"); }),
            "p: there is no whole line, so no plan, in it");
  EXPECT_EQ(message_of<UsageError>([&] { (void)points_of_text(run + "\n", "p"); }),
            "p:1: the first line must be the plan's, of kind 'plan'");
  EXPECT_EQ(message_of<UsageError>(
                [] { (void)points_of_text("{\"kind\": \"plan\", \"version\": 2}\n", "p"); }),
            "p:1: version is 2; it must be 1: the file is of another version of Convoy");
}

TEST(Points, AFullDiskLosesNothing) {
  const Scratch scratch;
  const std::string path = scratch.path("points.jsonl");
  PointsFile file(path, kHeader);
  file.add(some_run(1));
  const std::string before = slurp(path);
  {
    const FileSizeLimit limit(before.size() + 20);
    EXPECT_NE(message_of<Failure>([&] { file.add(some_run(2)); }).find("cannot write " + path),
              std::string::npos);
  }
  EXPECT_EQ(slurp(path), before);
  EXPECT_EQ(file.points().runs.size(), 1u);
  file.add(some_run(3));
  EXPECT_EQ(points_of_text(slurp(path)).runs.back().seed, 3u);
  EXPECT_THROW(file.add(PointRun{}), UsageError);
  EXPECT_THROW(file.add(TimeSample{1, -1}), UsageError);
  EXPECT_THROW((PointsFile(scratch.path("none/points.jsonl"), kHeader)), Failure);
}

}  // namespace
