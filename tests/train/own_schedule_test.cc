// Schedules of one's own: keys, warm-up, and runs that go on, also with those that there are.
#include "tests/golden/read.h"
#include "tests/train/stairs.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

class OwnScheduleTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_stairs(registry_);
  }
  static Overrides stairs(const Overrides& more = {}) {
    Overrides all{"schedule.name=stairs", "schedule.count=3", "schedule.low=0.25",
                  "schedule.warmup=0.5"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string said(const Overrides& overrides) const {
    return test::message_of<UsageError>([&] { recipe("wrong", overrides); });
  }
};

TEST_F(OwnScheduleTest, GoesOnInTheMiddle) {
  const std::string whole = train(recipe("whole", stairs())).checkpoint;
  const Recipe parts = recipe("parts", stairs());
  const RunResult middle = train(parts, 8);
  EXPECT_TRUE(middle.stopped);
  all().barrier();
  // What its keys say of a resumed run.
  EXPECT_NE(refusal(recipe("parts", stairs({"schedule.count=4"})), "latest")
                .find("schedule.count is 4, in the checkpoint it is 3; the training stands on one "
                      "of them"),
            std::string::npos);
  EXPECT_EQ(train(recipe("low", stairs({"schedule.low=0.5"})), 0, middle.checkpoint).steps, 18);
  EXPECT_EQ(train(recipe("cosine"), 0, middle.checkpoint).steps, 18) << "another schedule";
  const RunResult end = train(parts, 0, "latest");
  EXPECT_EQ(end.steps, 18);
  EXPECT_TRUE(same_tensors(whole, end.checkpoint));
  all().barrier();
  if (!first()) return;
  double position = 0;
  for (const auto& row : rows(parts, "step")) {
    const double part = std::max(0.0, (position - 0.5) / 2.5);
    const double rate = testing_data::rate_of_stairs(0.1, 3, 0.25, part);
    EXPECT_NEAR(row["learning_rate"].get<double>(), rate * std::min(1.0, position / 0.5), 1e-12)
        << row;
    position = row["epoch"];
  }
  EXPECT_EQ(position, 3);
}

// The rates of a run in two parts are PyTorch's, update by update (tests/golden/make_schedules.py),
// and its weights those of a run in one.
TEST_F(TrainerTest, PolynomialAndOneCycleGoOnInTheMiddle) {
  constexpr double kRate = 0.05;
  const auto goldens = golden::read("schedules.json");
  int number = 0;
  for (const auto& golden : goldens.at("cases")) {
    const auto steps = golden.at("steps").get<int>();
    Overrides how{"schedule.name=" + golden.at("name").get<std::string>(),
                  "training.epochs=0",
                  "training.steps=" + std::to_string(steps),
                  "optimizer.lr=0.05",
                  "evaluation.every_epochs=0",
                  "checkpoint.every_epochs=0"};
    for (const auto& [key, value] : golden.at("options").items())
      how.push_back("schedule." + key + "=" + value.dump());
    const std::string tag = std::to_string(number++);
    const std::string whole = train(recipe("whole" + tag, how)).checkpoint;
    const Recipe parts = recipe("parts" + tag, how);
    const RunResult middle = train(parts, steps / 2);
    EXPECT_TRUE(middle.stopped);
    EXPECT_EQ(middle.steps, steps / 2);
    const RunResult end = train(parts, 0, "latest");
    EXPECT_EQ(end.steps, steps);
    if (!first()) continue;
    EXPECT_TRUE(same_tensors(whole, end.checkpoint)) << how.front();
    const auto updates = rows(parts, "step");
    const auto& rates = golden.at("rates");
    ASSERT_EQ(updates.size(), rates.size());
    const double scale = kRate / golden.at("lr").get<double>();
    for (std::size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(updates[i]["learning_rate"].get<double>(), scale * rates[i].get<double>(),
                  1e-12 * kRate)
          << how.front() << " " << i;
    }
  }
}

TEST_F(OwnScheduleTest, MistakesAreSaid) {
  const auto expect = [&](const Overrides& overrides, const std::string& part) {
    const std::string text = said(overrides);
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  };
  expect(stairs({"schedule.count=0"}), "--set schedule.count has to be at least 1");
  expect(stairs({"schedule.low=2"}), "--set schedule.low is above 1: stairs lead down");
  expect(stairs({"schedule.low=inf"}), "schedule.low is inf; it has to be a finite number");
  expect(stairs({"schedule.low=much"}), "schedule.low: has to be a number");
  expect(stairs({"schedule.cuont=2"}),
         "schedule.cuont: there is no such key; did you mean schedule.count?");
  expect({"schedule.count=2"},
         "schedule.count is for the schedule stairs, not cosine, whose own key is end");
  expect(stairs({"schedule.end=0.5"}),
         "schedule.end is for the schedules cosine and polynomial, not stairs, whose own keys are "
         "count and low");
  expect({"schedule.name=constant", "schedule.end=0.5"},
         "schedule.end is for the schedules cosine and polynomial, not constant, which has no keys "
         "of its own");
  expect({"schedule.name=stair"},
         "schedule.name: there is no schedule 'stair'; there are constant, step, cosine, "
         "polynomial, one_cycle, stairs; did you mean stairs?");
  EXPECT_EQ(said({"schedule.count=4"}), "") << "its default, as a complete recipe has it";
}

TEST_F(OwnScheduleTest, NamesAreGivenOnce) {
  const auto add = [this](const std::string& name, std::vector<Option> options, bool rate = true) {
    ScheduleKind kind;
    kind.name = name;
    kind.options = std::move(options);
    if (rate) kind.rate = [](const ScheduleRequest& r) { return r.lr; };
    return test::message_of<UsageError>([&] { registry_.add_schedule(kind); });
  };
  EXPECT_EQ(add("stairs", {}), "there is a schedule 'stairs' already; give yours another name");
  EXPECT_EQ(add("cosine", {}), "there is a schedule 'cosine' already; give yours another name");
  EXPECT_EQ(add("", {}), "a schedule has to have a name");
  EXPECT_EQ(add("mine", {{"unit", 0.1, ""}}),
            "the schedule 'mine' can't have a key 'unit' of its own: every schedule has one");
  EXPECT_EQ(add("mine", {}, false), "the schedule 'mine' gives no rate");
  EXPECT_EQ(add("mine", {{"end", 0.1, ""}}), "");
}

// A complete recipe reads back to the same.
TEST_F(OwnScheduleTest, ItsKeysArePrinted) {
  const Recipe r = recipe("printed", stairs());
  const std::string text = print_recipe(r, true);
  EXPECT_NE(text.find("# down towards low in equal stairs; or constant, step, cosine, polynomial, "
                      "one_cycle, a plugin's\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\ncount = 3"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nend = "), std::string::npos) << "cosine's";
  const Recipe again = parse_recipe({text, "again.toml", "/"}, {}, registry_.vocabulary());
  EXPECT_EQ(print_recipe(again, true), text);
  EXPECT_EQ(again.schedule.options.integer("count"), 3);
}

}  // namespace
}  // namespace convoy::train
