#include "train/checkpoint/resume_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "convoy/train/recipe.h"
#include "tests/base/scratch.h"
#include "train/strategies/downpour/options.h"
#include "train/strategies/sandblaster/options.h"

namespace convoy::train {
namespace {

const char* name_of(ResumeRule rule) {
  if (rule == ResumeRule::free) return "yes";
  return rule == ResumeRule::fits ? "if it fits" : "no";
}

// A recipe that has every table.
std::string complete(const std::string& strategy) {
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
  const Recipe recipe = parse_recipe(
      {"[model]\nname = \"m\"\n[data]\nreader = \"r\"\n[data.train]\n[data.validation]\n"
       "[[optimizer.groups]]\nmax_dims = 1\n[[placement.layers]]\nhow = "
       "\"whole\"\n[training]\nbatch = 1\nepochs = 1\n",
       "r", "/"},
      {"strategy=" + strategy}, words);
  return print_recipe(recipe, false);
}

// Whoever adds a key says here what a resumed run does with it; the docs repeat it, and
// TrainerKeysTest tries it.
TEST(ResumeRules, EveryKeyHasOne) {
  std::set<const ResumeKey*> used;
  for (const char* strategy : {"sync", "hybrid", "partitioned", "downpour", "sandblaster"}) {
    for (const RecipeChange& change : recipe_changes(complete(strategy), "")) {
      const ResumeKey* key = find_resume_key(change.key);
      EXPECT_NE(key, nullptr) << change.key << " is new: may it change when a run is resumed?";
      used.insert(key);
    }
  }
  for (const ResumeKey& key : resume_keys()) {
    EXPECT_TRUE(used.contains(&key)) << key.key << " is no key of a recipe";
    EXPECT_EQ(key.why.empty(), key.rule != ResumeRule::fixed) << key.key;
  }
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
  for (const ResumeKey& key : resume_keys()) {
    const auto found = documented.find(std::string(key.key));
    ASSERT_NE(found, documented.end()) << key.key << " is missing in docs/training.md";
    EXPECT_EQ(found->second, name_of(key.rule)) << key.key;
  }
  EXPECT_EQ(documented.size(), resume_keys().size());
}

}  // namespace
}  // namespace convoy::train
