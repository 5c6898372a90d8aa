#include "train/checkpoint/resume_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "convoy/train/optimizer_rule.h"
#include "convoy/train/recipe.h"
#include "convoy/train/schedule.h"
#include "tests/base/scratch.h"
#include "train/strategies/downpour/options.h"
#include "train/strategies/sandblaster/options.h"

namespace convoy::train {
namespace {

const char* name_of(ResumeRule rule) {
  if (rule == ResumeRule::free) return "yes";
  return rule == ResumeRule::fits ? "if it fits" : "no";
}

Vocabulary resume_words() {
  Vocabulary words;
  words.models["m"] = {{"width", std::int64_t{1}, ""}};
  words.readers["r"] = {{"path", std::string(), ""}};
  words.tasks["classification"] = {{"label_smoothing", 0.0, ""},
                                   {"classes", std::vector<double>(), ""},
                                   {"class_names", std::vector<std::string>(), ""}};
  words.strategies["sync"] = {{"bucket", std::string(), ""}};
  words.strategies["hybrid"] = {{"scheme", std::string(), ""}};
  words.strategies["partitioned"] = {{"images", std::string(), ""}};
  words.strategies["downpour"] = downpour_keys();
  words.strategies["sandblaster"] = sandblaster_keys();
  return words;
}

// A recipe that has every table.
Recipe complete(const std::vector<std::string>& overrides, const Vocabulary& words) {
  return parse_recipe(
      {"[model]\nname = \"m\"\n[data]\nreader = \"r\"\n[data.train]\n[data.validation]\n"
       "[[optimizer.groups]]\nmax_dims = 1\n[[placement.layers]]\nhow = "
       "\"whole\"\n[training]\nbatch = 1\nepochs = 1\n",
       "r", "/"},
      overrides, words);
}
std::string complete(const std::string& strategy) {
  return print_recipe(complete({"strategy=" + strategy}, resume_words()), false);
}

// Whoever adds a key says here what a resumed run does with it; the docs repeat it, and
// TrainerKeysTest tries it.
TEST(ResumeRules, EveryKeyHasOne) {
  std::set<const ResumeKey*> used;
  for (const char* strategy : {"sync", "hybrid", "partitioned", "downpour", "sandblaster"}) {
    const Recipe recipe = complete({std::string("strategy=") + strategy}, resume_words());
    for (const RecipeChange& change : recipe_changes(complete(strategy), "")) {
      EXPECT_TRUE(resume_rule_of(recipe, change.key))
          << change.key << " is new: may it change when a run is resumed?";
      used.insert(find_resume_key(change.key));
    }
  }
  for (const ResumeKey& key : resume_keys()) {
    EXPECT_TRUE(used.contains(&key)) << key.key << " is no key of a recipe";
    EXPECT_EQ(key.why.empty(), key.rule != ResumeRule::fixed) << key.key;
  }
}

// Those of optimizers and schedules by kind: "optimizer.momentum" -> its rule.
template <class Kind>
void add_rules(const Kinds<Kind>& kinds, std::map<std::string, ResumeRule>& rules) {
  for (const auto& kind : kinds) {
    for (const Option& option : kind->options) {
      const std::string key = std::string(Kind::kSort) + "." + option.key;
      ASSERT_TRUE(option.resume) << key << " of " << kind->name << " is new: may it change?";
      EXPECT_EQ(option.why.empty(), *option.resume != ResumeRule::fixed) << key;
      EXPECT_EQ(rules.emplace(key, *option.resume).first->second, *option.resume)
          << key << " of " << kind->name << " has another rule than that of others";
    }
  }
}

TEST(ResumeRules, KeysOfOptimizersAndSchedulesSayTheirsThemselves) {
  std::map<std::string, ResumeRule> rules;
  add_rules(built_in_optimizers(), rules);
  add_rules(built_in_schedules(), rules);
  EXPECT_EQ(rules.at("optimizer.momentum"), ResumeRule::fits);
  EXPECT_EQ(rules.at("optimizer.beta1"), ResumeRule::free);
  EXPECT_EQ(rules.at("schedule.gamma"), ResumeRule::free);
  const Recipe sgd = complete({}, resume_words());
  EXPECT_EQ(resume_rule_of(sgd, "optimizer.momentum")->rule, ResumeRule::fits);
  EXPECT_EQ(resume_rule_of(sgd, "optimizer.groups[0].lr_scale")->rule, ResumeRule::free);
  EXPECT_EQ(resume_rule_of(sgd, "optimizer.name")->rule, ResumeRule::fixed);
  EXPECT_EQ(resume_rule_of(sgd, "model.options.width")->rule, ResumeRule::fits);
  EXPECT_FALSE(resume_rule_of(sgd, "optimizer.beta1")) << "it is Adam's";
}

// A plugin's may say so, too, of any table; what says nothing has the rule of its table.
TEST(ResumeRules, KeysOfPluginsMaySayTheirs) {
  Vocabulary words = resume_words();
  words.models["m"][0].resume = ResumeRule::fixed;
  words.models["m"][0].why = "widths are what it is about";
  words.models["m"].push_back({"depth", std::int64_t{1}, ""});
  OptimizerKind kind;
  kind.name = "mine";
  kind.options = {{"free", 0.0, ""},
                  {.key = "table",
                   .initial = 0.0,
                   .doc = "",
                   .resume = ResumeRule::fixed,
                   .why = "its rates are of that table"}};
  kind.rule = [](const OptimizerRequest&) -> optim::Rule { return optim::Sgd(); };
  words.optimizers.add(kind);
  const Recipe mine = complete({"optimizer.name=mine"}, words);
  EXPECT_EQ(resume_rule_of(mine, "model.options.width")->why, "widths are what it is about");
  EXPECT_EQ(resume_rule_of(mine, "model.options.depth")->rule, ResumeRule::fits);
  EXPECT_EQ(resume_rule_of(mine, "optimizer.table")->rule, ResumeRule::fixed);
  EXPECT_EQ(resume_rule_of(mine, "optimizer.table")->why, "its rates are of that table");
  EXPECT_FALSE(resume_rule_of(mine, "optimizer.free"));
}

TEST(ResumeRules, NumberedTablesAndUnknownKeys) {
  ASSERT_NE(find_resume_key("optimizer.groups[12].lr_scale"), nullptr);
  EXPECT_EQ(find_resume_key("optimizer.groups[12].lr_scale")->key, "optimizer.groups.*");
  EXPECT_EQ(find_resume_key("data.train.files")->key, "data.train.*");
  EXPECT_EQ(find_resume_key("data.trainer"), nullptr);
  EXPECT_EQ(find_resume_key("other.key"), nullptr);
}

TEST(ResumeRules, SomeStrategiesGoOnFromEachOther) {
  EXPECT_TRUE(save_alike("sync", "hybrid"));
  EXPECT_TRUE(save_alike("hybrid", "sync"));
  EXPECT_TRUE(save_alike("hybrid", "partitioned"));
  EXPECT_FALSE(save_alike("sync", "mine"));
  EXPECT_FALSE(save_alike("mine", "hybrid"));
  EXPECT_FALSE(save_alike("sync", "sandblaster"));
  EXPECT_TRUE(takes_weights_alone("sync", "sandblaster"));
  EXPECT_FALSE(takes_weights_alone("sandblaster", "sync"));
  EXPECT_FALSE(takes_weights_alone("sandblaster", "sandblaster"));
  EXPECT_FALSE(takes_weights_alone("mine", "sandblaster"));
}

TEST(ResumeRules, TheDocsSayTheSame) {
  std::istringstream page(test::slurp(test::source_folder() + "/docs/training.md"));
  std::map<std::string, std::string> documented;
  const std::regex code("`([^`]+)`");
  std::string line;
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with("#")) inside = line == "### What may change";
    if (!inside || !line.starts_with("| `")) continue;
    const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    const std::string keys = line.substr(0, first);
    for (std::sregex_iterator i(keys.begin(), keys.end(), code), end; i != end; ++i) {
      EXPECT_TRUE(documented.emplace((*i)[1], line.substr(first + 3, second - first - 3)).second)
          << (*i)[1];
    }
  }
  std::map<std::string, ResumeRule> rules;
  add_rules(built_in_optimizers(), rules);
  for (const ResumeKey& key : resume_keys()) rules.emplace(std::string(key.key), key.rule);
  for (const auto& [key, rule] : rules) {
    const auto found = documented.find(key);
    ASSERT_NE(found, documented.end()) << key << " is missing in docs/training.md";
    EXPECT_EQ(found->second, name_of(rule)) << key;
  }
  EXPECT_EQ(documented.size(), rules.size());
  // One row has all of schedules.
  std::map<std::string, ResumeRule> of_schedules;
  add_rules(built_in_schedules(), of_schedules);
  for (const auto& [key, rule] : of_schedules)
    EXPECT_EQ(documented.at("schedule.*"), name_of(rule)) << key;
}

}  // namespace
}  // namespace convoy::train
