// The optimizer and the schedule of a plugin, out of its shared library.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

constexpr const char* kOwn = R"(
[task]
name = "next_letter"
[model]
name = "reader"
[data]
reader = "words"
[data.train]
size = 8
[optimizer]
name = "signum"
momentum = 0.8
[schedule]
name = "stairs"
count = 5
[training]
batch = 64
epochs = 2
)";

class OwnPlugin : public testing::Test {
 protected:
  OwnPlugin() {
    registry_.load_plugins({environment("CONVOY_BINARY_DIR") + "/tests/libcli_arranged_plugin.so"});
  }
  train::Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return train::parse_recipe({kOwn, "own.toml", "/"}, overrides, registry_.vocabulary());
  }
  std::string said(const std::string& key) const {
    return test::message_of<UsageError>([&] { recipe({key}); });
  }

  train::Registry registry_;
};

TEST_F(OwnPlugin, ItsOptimizerAndItsScheduleHaveKeys) {
  const train::Recipe r = recipe();
  EXPECT_EQ(r.optimizer.options.number("momentum"), 0.8);
  const auto rule =
      registry_.optimizer("signum")({.weight_decay = 0, .options = r.optimizer.options});
  EXPECT_EQ(rule->slots(), std::vector<std::string>{"mean"});
  const double rate = r.schedule.kind->rate(
      {.lr = 1, .options = r.schedule.options, .time = 1, .part = 0.5, .update = 0.1});
  EXPECT_NEAR(rate, 0.6, 1e-12);
  const std::string printed = train::print_recipe(r, true);
  EXPECT_NE(printed.find("\ncautious = false"), std::string::npos) << printed;
  EXPECT_NE(printed.find("\nlow = 0"), std::string::npos) << printed;
}

TEST_F(OwnPlugin, MistakesAreSaid) {
  EXPECT_EQ(said("optimizer.momentun=0.5"),
            "--set optimizer.momentun: there is no such key; did you mean optimizer.momentum?");
  EXPECT_EQ(said("schedule.count=0"), "--set schedule.count has to be at least 1");
  EXPECT_NE(said("optimizer.momentum=1").find("optimizer.momentum has to be from 0 to 1"),
            std::string::npos);
  EXPECT_NE(said("schedule.end=0.5").find("not stairs, whose own keys are count and low"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::cli
