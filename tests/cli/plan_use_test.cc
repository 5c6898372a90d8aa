// What a plan's answer is, and what becomes of it.
#include <cmath>
#include <map>

#include "cli/plan/answers.h"
#include "cli/plan/measured.h"
#include "cli/plan/normalizing.h"
#include "cli/plan/plan_file.h"
#include "cli/plan/plan_recipe.h"
#include "cli/plan/report.h"
#include "convoy/base/error.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanUse : public PlanFixture {};

// The one that is soonest comes first, in the text as in the rows.
TEST_F(PlanUse, TheAnswerIsOneLine) {
  measure();
  const auto text = [this](double delta, const std::vector<std::int64_t>& workers) {
    const PlannedMachine machine{{machine_of(delta), {}, {}}, std::nullopt, std::nullopt};
    const Answers answers = answer(points(), machine, workers, kSamples);
    Rows rows(rows_);
    add_rows(answers, "convoy train r.toml -n 2", rows);
    return answer_text(answers);
  };
  EXPECT_TRUE(text(0.2, {1, 2, 4}).starts_with("soonest to train_loss 0.5: 1 worker, batch 32, "))
      << text(0.2, {1, 2, 4});
  EXPECT_TRUE(has(text(0.2, {1, 2, 4}), "); 2 workers take "));
  const std::string two = text(0.002, {1, 2});
  EXPECT_TRUE(two.starts_with("soonest to train_loss 0.5: 2 workers, batch ")) << two;
  EXPECT_TRUE(has(two, "); 1 worker takes ")) << two;
  const Json row = written().front();
  EXPECT_EQ(row["kind"], "answer");
  EXPECT_EQ(row["target"], 0.5);
  EXPECT_EQ(row["workers"], 2);
  EXPECT_EQ(row["learning_rate"], 0.02);
  EXPECT_LT(row["seconds_low"], row["seconds"]);
  EXPECT_EQ(row["trusted"], true);
  EXPECT_FALSE(has(text(0.002, {1}), "take"));
}

// One worker was timed: of two nothing is known, and nothing is said.
TEST_F(PlanUse, NoAnswerCountsOnCommunicationThatWasNotTimed) {
  measure();
  plan::PlanPoints all = points();
  for (const std::int64_t samples : {4, 16, 64, 128}) {
    for (const double factor : {0.98, 1.0, 1.02})
      all.times.push_back(
          {samples, 1e-3 * std::max<double>(static_cast<double>(samples), 32) * factor});
  }
  const Answers answers = answer(all, fit_machine(all), {1, 2}, kSamples);
  ASSERT_EQ(answers.levels.size(), 2u);
  EXPECT_EQ(answers.levels[1].choices.size(), 1u);
  ASSERT_EQ(answers.without.size(), 2u);
  EXPECT_TRUE(has(answers.without[1].why,
                  "train_loss 0.5: 2 workers: nothing is known of communication between 2 workers"))
      << answers.without[1].why;
  EXPECT_FALSE(has(make_plan_report({"bars", all, answers, kSamples}), "Scaling to"));
  {
    Rows rows(rows_);
    add_rows(answers, "", rows);
  }
  const Json row = written().back(), machine = written()[1];
  EXPECT_EQ(row["kind"], "without");
  EXPECT_EQ(row["target"], 0.5);
  EXPECT_EQ(row["workers"], 2);
  // What seconds were computed from.
  EXPECT_EQ(machine["kind"], "machine");
  EXPECT_EQ(machine["flat_seen"], true);
  EXPECT_EQ(machine["slope_seen"], true);
  EXPECT_EQ(machine["communication"], "unknown");
  EXPECT_FALSE(machine.contains("delta_s"));
  EXPECT_EQ(machine.contains("seconds_by_samples"), !answers.machine.machine.machine.table.empty());
  // As a plan of before has written it.
  plan::Machine before = machine_of(0);
  before.source = "measured";
  test::spill(plan_ + "/machine.toml", plan::to_toml(before));
  MeasuredWords words;
  words.recipe.path = recipe_;
  words.folder = plan_;
  const Measured measured = open_measured(words);
  EXPECT_NO_THROW(check_communication(measured, 1));
  EXPECT_TRUE(has(test::message_of<UsageError>([&] { check_communication(measured, 2); }),
                  "--workers 2: nothing is known of communication between workers"));
}

// A plan of before can be read, but for what its times say of communication.
TEST_F(PlanUse, TimesOfBeforeWithoutUpdatesAreSaid) {
  measure();
  plan::Machine before = machine_of(0.02);
  before.source = "measured";
  test::spill(plan_ + "/machine.toml", plan::to_toml(before));
  MeasuredWords words;
  words.recipe.path = recipe_;
  words.folder = plan_;
  EXPECT_TRUE(open_measured(words).warnings.empty());
  PlanFolder(plan_, planned(), true).add(plan::CommunicationSample{2, 1e-3, 64});
  const Measured measured = open_measured(words);
  EXPECT_EQ(measured.machine.communication, before.communication);
  ASSERT_EQ(measured.warnings.size(), 1u);
  EXPECT_TRUE(has(measured.warnings[0], "times of communication in " + plan_ +
                                            " are of an earlier version, which did not keep how "
                                            "long whole updates took"))
      << measured.warnings[0];
  EXPECT_TRUE(has(measured.warnings[0], "`convoy plan batch --resume` times it anew"));
  PlanFolder(plan_, planned(), true).add(plan::CommunicationSample{2, 1e-3, 64, 0.1});
  EXPECT_TRUE(open_measured(words).warnings.empty());
}

TEST_F(PlanUse, TrainPrintsTheRecipeThatItsPlanMakes) {
  const std::string file = scratch_.path("plan.toml");
  PlanFile plan{"bars", "loss", 0.1, {{1, 16, 0.01, 1}, {4, 64, 0.03, 1}}};
  plan.measured = {"", 1, kSamples, {}, compared_part(planned().recipe)};
  test::spill(file, to_toml(plan));
  const auto printed = [&](Words more) {
    more.insert(more.begin(), {"train", recipe_, "--plan", file, "--print-recipe", "--set",
                               "schedule.name=cosine"});
    return Job(more).finish().out;
  };
  EXPECT_TRUE(has(printed({}), "batch = 16") && has(printed({}), "lr = 0.01"));
  for (const Words& four : {Words{"-n", "4"}, Words{"--hosts", "a:2,b:2"}})
    EXPECT_TRUE(has(printed(four), "batch = 64") && has(printed(four), "lr = 0.03"));
}

// What would be another training is refused before it begins.
TEST_F(PlanUse, TrainComparesTheRecipeWithThatOfItsPlan) {
  const std::string file = scratch_.path("plan.toml");
  const Planned plan = open_planned(
      RecipeWords{.path = recipe_, .overrides = {"optimizer.momentum=0.5", "threads=2"}},
      GoalWords{.target = "", .targets = "1", .metric = "train_loss"});
  EXPECT_EQ(plan.recipe.threads, 2);
  EXPECT_EQ(planned().recipe.threads, 1);
  PlanFile of{"bars", "train_loss", 1, {{1, 16, 0.01, 1}}};
  of.measured = {"", 2, kSamples, {"optimizer.momentum=0.5"}, compared_part(plan.recipe)};
  test::spill(file, to_toml(of));
  const std::string refused = complaint({"train", recipe_, "--plan", file, "--print-recipe"});
  EXPECT_TRUE(has(refused,
                  "was measured with another recipe: optimizer.momentum is 0.9, in the plan it is "
                  "0.5 (its overrides were --set optimizer.momentum=0.5); plan anew"))
      << refused;
}

// Timed with other shares of a batch, or between other workers, it is another.
TEST_F(PlanUse, CommunicationThatWasTimedOtherwiseIsSaid) {
  measure();
  plan::PlanPoints all = points();
  for (const std::int64_t samples : {4, 16, 64, 128}) {
    for (const double factor : {0.98, 1.0, 1.02})
      all.times.push_back(
          {samples, 1e-3 * std::max<double>(static_cast<double>(samples), 32) * factor});
  }
  const auto warnings = [&all](std::int64_t batch, std::int64_t workers) {
    for (const double factor : {0.97, 1.03}) all.communication.push_back({2, 1e-3 * factor, batch});
    const Answers answers = answer(all, fit_machine(all), {workers}, kSamples);
    all.communication.clear();
    std::string text;
    for (const std::string& one : answers.levels[1].choices[0].warnings) text += one + "\n";
    return text;
  };
  EXPECT_FALSE(has(warnings(64, 2), "communication was"));  // 32 each
  EXPECT_TRUE(has(warnings(400, 2), "was timed with 200 samples for each worker"))
      << warnings(400, 2);
  const std::string four = warnings(64, 4);
  EXPECT_TRUE(has(four,
                  "communication was measured with 2 workers; that of 4 is what its model "
                  "makes of that, which is that it takes as long between any number"))
      << four;
  EXPECT_FALSE(has(four, "was timed with"));
}

// A file's machine is one of some network, whose workers hold so many samples.
TEST_F(PlanUse, AMachineOfAnotherNetworkIsNotTakenAsItIs) {
  measure();
  const std::string file = scratch_.path("given.toml");
  const auto batch = [&](const std::string& model, double bytes, Words more) {
    plan::Machine machine = machine_of(0);
    machine.model = model;
    machine.communication.kind = plan::CommunicationKind::ring;
    machine.communication.gradient_bytes = bytes;
    machine.communication.bandwidth_bytes_per_s = 1e9;
    test::spill(file, plan::to_toml(machine));
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"--metric", "train_loss"},
                                            {"--targets", "1.5,0.5"},
                                            {"--batches", "4,8,16,32,64,128"},
                                            {"--rates", "0.02,0.04"},
                                            {"--workers", "1,2"},
                                            {"--machine", file}})
      more.insert(more.end(), {name, value});
    more.emplace_back("--resume");
    return words("batch", more);
  };
  EXPECT_TRUE(has(complaint(batch("alexnet", 1000, {})),
                  file + " has the times of the model 'alexnet', and the recipe trains 'lenet'"));
  const auto choices = [this] {
    std::vector<Json> rows;
    for (const Json& row : written()) {
      if (row["kind"] == "batch" && row["target"] == 0.5) rows.push_back(row);
    }
    return rows;
  };
  const auto warnings = [](const Json& row) { return row["warnings"].dump(); };
  rows_of(batch("lenet", 1000, {"--most-samples", "8"}));
  ASSERT_EQ(choices().size(), 2u);
  EXPECT_EQ(choices()[0]["batch"], 8);
  EXPECT_EQ(choices()[1]["batch"], 16);
  EXPECT_TRUE(has(warnings(choices()[1]), "the memory of a worker holds 8 samples"));
  EXPECT_TRUE(has(warnings(choices()[1]), "has communication.gradient_bytes = 1000, and an update"))
      << warnings(choices()[1]);
  EXPECT_FALSE(has(warnings(choices()[0]), "gradient_bytes"));
  EXPECT_TRUE(has(read_text_file(plan_ + "/machine.toml"), "memory_samples = 8\n"));
  const double own = gradient_bytes_of(RecipeWords{.path = recipe_, .overrides = {}}).value();
  EXPECT_EQ(std::fmod(own, 4), 0);
  rows_of(batch("", own, {}));
  EXPECT_GT(choices()[0]["batch"], 8);
  EXPECT_FALSE(has(warnings(choices()[1]), "gradient_bytes")) << warnings(choices()[1]);
}

// Updates are counted on one worker, which normalizes over whole batches.
TEST_F(PlanUse, SharesThatAreNormalizedByThemselvesAreKnown) {
  const auto normalizes = [this](const Words& overrides) {
    return normalizes_shares(
        open_planned(RecipeWords{.path = recipe_, .overrides = overrides},
                     GoalWords{.target = "", .targets = "1", .metric = "train_loss"})
            .recipe);
  };
  EXPECT_FALSE(normalizes({}));
  Words resnet{"model.name=resnet20",
               "data.size=32",
               "data.channels=3",
               "data.mean=[0.1,0.1,0.1]",
               "data.augment.crop='random_resized'",
               "data.deviation=[1.0,1.0,1.0]"};
  EXPECT_TRUE(normalizes(resnet));
  resnet.push_back("sync.batch_norm=synchronized");
  EXPECT_FALSE(normalizes(resnet));

  measure();
  const PlannedMachine machine{{machine_of(0.02), {}, {}}, std::nullopt, std::nullopt};
  Answers answers = answer(points(), machine, {1, 2}, kSamples);
  add_warning(answers, 2, "of several");
  const auto& choices = answers.levels[1].choices;
  EXPECT_EQ(std::count(choices[0].warnings.begin(), choices[0].warnings.end(), "of several"), 0);
  EXPECT_EQ(choices[1].warnings.back(), "of several");
}

}  // namespace
}  // namespace convoy::cli
