// Optimizers and schedules that Convoy brings, one after the other.
#include <limits>
#include <set>
#include <stdexcept>

#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"
#include "tests/train/recipe_fixture.h"

namespace convoy::train {
namespace {

using KindsTest = RecipeTest;

constexpr const char* kPlain = R"(
[model]
name = "lenet"
[data]
reader = "files"
[data.train]
path = "data"
[training]
batch = 32
epochs = 2
)";

template <class Kind>
void expect_documented(const Kinds<Kind>& kinds) {
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind->name);
    EXPECT_FALSE(kind->doc.empty());
    for (const Option& option : kind->options) {
      EXPECT_FALSE(option.doc.empty()) << option.key;
      EXPECT_TRUE(option.resume) << option.key;
      if (option.check) EXPECT_EQ(option.check(option.initial), "") << option.key;
    }
  }
}

TEST_F(KindsTest, AreDocumented) {
  expect_documented(built_in_optimizers());
  expect_documented(built_in_schedules());
  EXPECT_EQ(built_in_optimizers().names(),
            (std::vector<std::string>{"sgd", "sgd_velocity", "adam", "adamw", "adagrad", "lars",
                                      "lamb"}));
  EXPECT_EQ(built_in_schedules().names(),
            (std::vector<std::string>{"constant", "step", "cosine", "polynomial", "one_cycle"}));
}

// Which key another one has, a complete recipe of this one may have with its default: so these have
// to be the same.
template <class Kind>
void expect_alike(const Kinds<Kind>& kinds) {
  std::map<std::string, Value> defaults;
  for (const auto& kind : kinds) {
    for (const Option& option : kind->options)
      EXPECT_EQ(defaults.emplace(option.key, option.initial).first->second, option.initial)
          << option.key << " of " << kind->name;
  }
}

TEST_F(KindsTest, KeysOfTheSameNameHaveTheSameDefault) {
  expect_alike(built_in_optimizers());
  expect_alike(built_in_schedules());
}

TEST_F(KindsTest, EveryOptimizerIsReadPrintedAndMade) {
  for (const auto& kind : built_in_optimizers()) {
    SCOPED_TRACE(kind->name);
    const Recipe r = parse(kPlain, {"optimizer.name=" + kind->name});
    EXPECT_EQ(r.optimizer.kind, kind);
    const optim::Rule rule = optimizer_rule(r.optimizer);
    EXPECT_EQ(optim::name(rule), kind->name);
    EXPECT_EQ(optim::learning_rate(rule), 0.01);
    EXPECT_EQ(kind->on_servers, !optim::is_layerwise(rule));
    const std::string printed = print_recipe(r, true);
    EXPECT_NE(printed.find("# " + kind->doc + "; or "), std::string::npos) << printed;
    const Recipe again = parse_recipe({printed, "r", "/"}, {}, vocabulary());
    EXPECT_EQ(print_recipe(again, true), printed);
    EXPECT_EQ(again.optimizer.options, r.optimizer.options);
    // Its own keys, and no others.
    for (const auto& other : built_in_optimizers()) {
      for (const Option& option : other->options) {
        EXPECT_EQ(printed.find("\n" + option.key + " = ") != std::string::npos,
                  r.optimizer.options.has(option.key))
            << option.key;
      }
    }
  }
}

TEST_F(KindsTest, EveryScheduleIsReadPrintedAndMade) {
  for (const auto& kind : built_in_schedules()) {
    SCOPED_TRACE(kind->name);
    std::vector<std::string> set{"schedule.name=" + kind->name};
    if (kind->name == "step") set.push_back("schedule.milestones=[1]");
    const Recipe r = parse(kPlain, set);
    EXPECT_EQ(r.schedule.kind, kind);
    Moment now;
    now.samples = 100;
    const double rate = Schedule(r.schedule, 2, r.training, 4).at(now);
    EXPECT_NEAR(rate, kind->name == "one_cycle" ? 2.0 / 25 : 2.0, 1e-12);
    const std::string printed = print_recipe(r, true);
    EXPECT_NE(printed.find("# " + kind->doc + "; or "), std::string::npos) << printed;
    const Recipe again = parse_recipe({printed, "r", "/"}, {}, vocabulary());
    EXPECT_EQ(print_recipe(again, true), printed);
    EXPECT_EQ(again.schedule.options, r.schedule.options);
  }
}

// A program may read a recipe and give it another name: that one is trained with, or none.
TEST_F(KindsTest, AnotherNameIsAnotherOne) {
  Recipe r = parse(kPlain, {"optimizer.momentum=0.0", "schedule.name=constant"});
  r.optimizer.name = "adamw";
  EXPECT_TRUE(has_rule(r.optimizer));
  EXPECT_EQ(optim::name(optimizer_rule(r.optimizer)), "adamw");
  r.schedule.name = "one_cycle";
  Moment now;
  now.samples = 100;
  EXPECT_NEAR(Schedule(r.schedule, 2, r.training, 4).at(now), 2.0 / 25, 1e-12);
  r.optimizer.name = r.schedule.name = "nobody's";
  EXPECT_THROW(has_rule(r.optimizer), std::logic_error);
  EXPECT_THROW(optimizer_rule(r.optimizer), std::logic_error);
  EXPECT_THROW(Schedule(r.schedule, 2, r.training, 4), std::logic_error);
  // What was said of the former one, and the other has no key for, is no slip to pass over.
  Recipe heavy = parse(kPlain, {"optimizer.momentum=0.9"});
  heavy.optimizer.name = "adamw";
  EXPECT_THROW(optimizer_rule(heavy.optimizer), std::logic_error);
  heavy.optimizer.name = "lars";
  EXPECT_EQ(std::get<optim::Lars>(optimizer_rule(heavy.optimizer)).momentum, 0.9);
}

// Recipes of checkpoints of former versions have the keys of all, and so may those of users.
TEST_F(KindsTest, KeysOfOthersMayHaveTheirDefaults) {
  std::string former = "[optimizer]\nlr = 0.1\nname = \"adam\"\nweight_decay = 0.0\n";
  const auto all_keys = [](const auto& kinds) {
    std::string text;
    std::set<std::string> done;
    for (const auto& kind : kinds) {
      for (const Option& option : kind->options) {
        if (!done.insert(option.key).second) continue;
        text += option.key + " = ";
        if (const auto* number = std::get_if<double>(&option.initial))
          text += std::to_string(*number);
        else if (const auto* whole = std::get_if<std::int64_t>(&option.initial))
          text += std::to_string(*whole);
        else
          text += std::holds_alternative<bool>(option.initial) ? "false" : "[]";
        text += "\n";
      }
    }
    return text;
  };
  former += all_keys(built_in_optimizers());
  former += "[schedule]\nname = \"cosine\"\n" + all_keys(built_in_schedules());
  const Recipe r = parse(kPlain + former);
  EXPECT_EQ(r.optimizer.options.number("beta2"), 0.999);
  EXPECT_FALSE(r.optimizer.options.has("momentum"));
  EXPECT_EQ(print_recipe(r, false),
            print_recipe(
                parse(kPlain, {"optimizer.name=adam", "optimizer.lr=0.1", "schedule.name=cosine"}),
                false));
  EXPECT_EQ(problems(kPlain + former, {"optimizer.nesterov=true"}),
            "--set optimizer.nesterov is for sgd, not adam, whose own keys are beta1, beta2, eps "
            "and amsgrad");
  EXPECT_EQ(problems(kPlain + former, {"optimizer.nesterov=1"}),
            "--set optimizer.nesterov: has to be true or false");
}

TEST_F(KindsTest, UnknownOnesAreToldWhatThereIs) {
  EXPECT_EQ(problems(kPlain, {"optimizer.name=adamx"}),
            "--set optimizer.name: there is no optimizer 'adamx'; there are sgd, sgd_velocity, "
            "adam, adamw, adagrad, lars, lamb; did you mean adam?");
  EXPECT_EQ(problems(kPlain, {"schedule.name=linear"}),
            "--set schedule.name: there is no schedule 'linear'; there are constant, step, cosine, "
            "polynomial, one_cycle");
  EXPECT_EQ(problems(kPlain, {"schedule.foo=1"}),
            "--set schedule.foo: there is no such key; there are name, unit, warmup, warmup_from");
  EXPECT_EQ(problems(kPlain, {"optimizer.quux=1"}),
            "--set optimizer.quux: there is no such key; there are name, lr, weight_decay, "
            "momentum, dampening, nesterov, groups");
}

// Whoever makes a rule may refuse a group's values, and has to make the same one of all; their keys
// may have any default, and any type.
TEST_F(KindsTest, RulesOfGroupsAreTried) {
  Vocabulary words = vocabulary();
  OptimizerKind kind;
  kind.name = "mine";
  kind.options = {{"bound", std::numeric_limits<double>::infinity(), "of updates"},
                  {"trust_min_dims", std::string("all"), "a word"}};
  kind.rule = [](const OptimizerRequest& r) -> optim::Rule {
    if (r.weight_decay == 0.25) throw UsageError("optimizer.weight_decay can't be 0.25");
    if (r.weight_decay == 0.5) return optim::Lamb{.weight_decay = r.weight_decay};
    return optim::Sgd{.momentum = r.weight_decay == 0.75 ? 0.9 : 0, .weight_decay = r.weight_decay};
  };
  words.optimizers.add(kind);
  const auto said = [&](const std::string& set) {
    return test::message_of<UsageError>([&] {
      parse_recipe({kPlain, "mine.toml", folder_.path()}, {"optimizer.name=mine", set}, words);
    });
  };
  const auto group = [&](const std::string& keys) {
    return said("optimizer.groups=[{max_dims=1, " + keys + "}]");
  };
  EXPECT_EQ(group("weight_decay=0.125"), "");
  EXPECT_NE(said("optimizer.weight_decay=0.25").find("optimizer.weight_decay can't be 0.25"),
            std::string::npos);
  EXPECT_EQ(said("optimizer.weight_decay=0.25").find("optimizer: "), std::string::npos);
  EXPECT_NE(group("weight_decay=0.25").find("optimizer.groups[0]: optimizer.weight_decay can't be"),
            std::string::npos);
  for (const char* other : {"0.5", "0.75"}) {
    EXPECT_NE(group(std::string("weight_decay=") + other).find("another rule, or other state"),
              std::string::npos)
        << other;
  }
  EXPECT_NE(said("optimizer.bound=-inf").find("has to be a finite number"), std::string::npos);
  EXPECT_NE(group("trust_min_dims=1").find("groups[0].trust_min_dims is for "), std::string::npos);
}

// Any table's keys may say what they have to be.
TEST_F(KindsTest, KeysOfOtherTablesHaveChecksToo) {
  Vocabulary words = vocabulary();
  words.models["lenet"] = {{.key = "width",
                            .initial = std::int64_t{8},
                            .doc = "of it",
                            .check = [](const Value& value) -> std::string {
                              return std::get<std::int64_t>(value) > 0 ? "" : "has to be above 0";
                            }}};
  const auto said = [&](const std::string& set) {
    return test::message_of<UsageError>([&] {
      parse_recipe({kPlain, "mine.toml", folder_.path()}, {set}, words);
    });
  };
  EXPECT_EQ(said("model.options.width=0"), "--set model.options.width has to be above 0");
  EXPECT_EQ(said("model.options.width=1"), "");
}

}  // namespace
}  // namespace convoy::train
