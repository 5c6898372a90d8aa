// What is refused of a network whose fully connected layers ranks share: keys, layers, shapes.
#include <string>
#include <utility>
#include <vector>

#include "tests/train/hybrid_fixture.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {
namespace {

// What is wrong whatever the network is said with all other mistakes, before ranks are started.
TEST_F(HybridTest, WrongKeysAreSaid) {
  const auto said = [&](Overrides how) {
    return test::message_of<UsageError>([&] { hybrid("wrong", {1, 2}, how); });
  };
  const std::vector<std::pair<Overrides, std::string>> cases{
      {{"hybrid.scheme=d"}, "hybrid.scheme is 'd'; it can be a, b, c or bc"},
      {{"hybrid.scheme=bc"}, "hybrid.senders is 0; with scheme bc it can be from 1 to "},
      {{"hybrid.scheme=bc", "hybrid.senders=3"}, "grid.partitions, which is 2"},
      {{"hybrid.senders=2"}, "it is for scheme bc"},
      {{"hybrid.scheme=a", "hybrid.passes=2"},
       "hybrid.passes is 2, but hybrid.scheme is a: it is for scheme c"},
      {{"hybrid.passes=-1"}, "hybrid.passes is -1; it can be from 1 to 1024, or 0"},
      {{"hybrid.passes=1025"}, "hybrid.passes is 1025; it can be from 1 to 1024"},
      {{"hybrid.scheme=a", "hybrid.variable_batch=true"}, "scheme a has one: choose b, c or bc"},
      {{"hybrid.passes=1", "hybrid.variable_batch=true"}, "hybrid.passes is 1: choose more"},
      {{"training.accumulate=2"}, "training.accumulate is 2; hybrid cuts a batch into passes"},
      {{"hybrid.batch_norm=some"}, "hybrid.batch_norm is 'some'; it can be local or synchronized"},
      {{"hybrid.rates=square"}, "hybrid.rates is 'square'; it can be own, linear or sqrt"},
      {{"hybrid.rates=sqrt", "optimizer.lr=2", "optimizer.weight_decay=0.5"},
       "the learning rate 2 times the weight decay 0.5 is 1"},
      {{"hybrid.rates=sqrt", "optimizer.lr=0.5",
        R"(optimizer.groups=[{max_dims=1, lr_scale=4, weight_decay=0.6}])"},
       "the learning rate 2 times the weight decay 0.6 of optimizer.groups[0] is 1.2"},
      {{"hybrid.rates=sqrt", "optimizer.name=lars", "optimizer.weight_decay=0.01"},
       "hybrid.rates is sqrt, which fits optimizer.weight_decay to the rate, and 'lars' multiplies "
       "it by a trust ratio, so that no decay fits: choose own or linear"},
      {{"hybrid.rates=sqrt", "optimizer.name=lamb", "optimizer.momentum=0",
        R"(optimizer.groups=[{max_dims=1, weight_decay=0.1}])"},
       "'lamb' multiplies it by a trust ratio"},
      {{"hybrid.rates=sqrt", "optimizer.name=adam", "optimizer.momentum=0",
        "optimizer.weight_decay=0.01"},
       "'adam' divides it as it does gradients"},
      {{"hybrid.base_batch=0"}, "hybrid.base_batch is 0; it has to be at least 1"},
      {{"hybrid.wire=u8"}, "hybrid.wire is 'u8'; it can be own or bfloat16"},
      {{R"(placement.layers=[{layers=["c.1"], how="region"}])"},
       "placement.layers[0].how is 'region'; with hybrid it can be replicated, partitioned"},
      {{R"(placement.layers=[{layers=["c.1"], how="partitioned", parts=[1]}])"},
       "placement.layers[0].parts has 1 numbers"},
  };
  for (const auto& [how, expected] : cases)
    EXPECT_NE(said(how).find(expected), std::string::npos) << expected << "; " << said(how);
  EXPECT_NE(said({"hybrid.schem=a"}).find("did you mean"), std::string::npos);
  // Either side of what is allowed.
  EXPECT_EQ(said({"hybrid.passes=1024"}), "");
  EXPECT_EQ(said({"hybrid.scheme=bc", "hybrid.senders=2"}), "");
  EXPECT_EQ(said({"hybrid.rates=sqrt", "optimizer.lr=2", "optimizer.weight_decay=0.499"}), "");
  EXPECT_EQ(said({"hybrid.scheme=bc", "hybrid.senders=1", "hybrid.variable_batch=true"}), "");
  EXPECT_EQ(said({"hybrid.rates=sqrt", "optimizer.name=lars"}), "");
  EXPECT_EQ(said({"hybrid.rates=sqrt", "optimizer.name=adamw", "optimizer.momentum=0",
                  "optimizer.weight_decay=0.01"}),
            "");
}

// What a plugin makes of the recipe's decay is its own matter, be it one of Convoy's rules.
TEST_F(HybridTest, RatesOfAPluginsRuleAreItsOwn) {
  OptimizerKind kind;
  kind.name = "mine";
  kind.rule = [](const OptimizerRequest&) -> optim::Rule {
    return optim::Sgd{.weight_decay = 0.1};
  };
  registry_.add_optimizer(kind);
  const auto said = [&](const std::string& rates) {
    return test::message_of<UsageError>([&] {
      hybrid("mine", {1, 2}, {"optimizer.name=mine", "optimizer.momentum=0", rates});
    });
  };
  EXPECT_NE(said("hybrid.rates=sqrt").find("with the optimizer 'mine' of a plugin it can be own"),
            std::string::npos);
  EXPECT_EQ(said("hybrid.rates=linear"), "");
}

// What was trained with rates that are refused by now can be used, and gone on from with others.
TEST_F(HybridTest, RatesOfAnEarlierRecipeAreNoMatter) {
  const Recipe own =
      hybrid("former", {1, 2},
             {"optimizer.name=lars", "optimizer.momentum=0", "optimizer.weight_decay=0.01"});
  Recipe former = own;
  former.strategy_options.set("rates", std::string("sqrt"));
  const RecipeText text{print_recipe(former, false), "former", "/"};
  const auto said = [&](const Overrides& set, Files files) {
    return test::message_of<UsageError>(
        [&] { parse_recipe(text, set, registry_.vocabulary(), files); });
  };
  EXPECT_EQ(said({}, Files::may_be_missing), "");
  EXPECT_NE(said({}, Files::must_exist).find("'lars' multiplies it by a trust ratio"),
            std::string::npos);
  EXPECT_EQ(said({"hybrid.rates=own"}, Files::must_exist), "");
}

// And what the layers are, by every rank, naming them.
TEST_F(HybridTest, LayersThatCannotBeDividedAreSaid) {
  const GridOf grid{1, ranks()};
  int number = 0;
  const auto said = [&](Overrides how) {
    return refusal(hybrid("wrong" + std::to_string(number++), grid, how));
  };
  const auto place = [](const std::string& rules) {
    return Overrides{"placement.layers=[" + rules + "]"};
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "; " << text;
  };
  has(said(place(R"({layers=["c.6"], how="replicated"})")),
      "layer 'c.6' is replicated; it stands behind 'c.1', which is partitioned: no rank has all");
  has(said(place(R"({layers=["f.conv"], how="partitioned"})")),
      "layer 'f.conv' (convolution) can't be partitioned");
  has(said(place(R"({layers=["c.*"], how="replicated"})")), "no layer of Net is partitioned");
  has(said({"model.name=small"}), "the model 'small' is code, which can't be divided");
  if (ranks() == 1) return;
  std::string none = "1";
  for (int p = 1; p < ranks(); ++p) none += ",0";
  has(said(place(R"({layers=["c.4"], how="partitioned", parts=[)" + none + "]}")),
      "layer 'c.4' has 9 units, and partition 1 of " + std::to_string(ranks()) + " would get none");
  // As many units as partitions are enough; three classes are too few for four.
  if (ranks() == 4)
    has(said({"model.classes=3"}),
        "layer 'c.6' has 3 units, and some of 4 partitions would get none: every partition needs "
        "at "
        "least one. Let grid.partitions be 3 at most (--set grid.partitions=3, and as "
        "many ranks for each replica)");
  if (ranks() == 3) EXPECT_EQ(said({"model.classes=3"}), "");
}

// The shape of the network matters, too.
TEST_F(HybridTest, OnlyChainsAreDivided) {
  using namespace model::layer;
  const auto refuse = [&](model::Blueprint net, const PlacementRecipe& placement = {}) {
    return test::message_of<UsageError>([&] { SplitNetwork(net, net.inputs, placement, 1, 0, 2); });
  };
  const auto stage = [](std::vector<model::Node> nodes, std::vector<std::string> outputs) {
    return model::Blueprint{
        "N", {{4, 3, 3}}, {{"all", {"x"}, std::move(nodes), std::move(outputs)}}};
  };
  const Linear square{.in = 36, .out = 36};
  EXPECT_EQ(refuse(stage({{"flat", Flatten{}, {"x"}, {}}, {"fc", square, {"flat"}, {}}}, {"fc"})),
            "");
  EXPECT_NE(refuse(stage({{"flat", Flatten{}, {"x"}, {}},
                          {"fc", square, {"flat"}, {}},
                          {"sum", Add{}, {"fc", "flat"}, {}}},
                         {"sum"}))
                .find("layer 'sum': from 'fc' on, the first layer that is partitioned, each layer "
                      "has to read the one before it alone"),
            std::string::npos);
  EXPECT_NE(
      refuse(stage({{"flat", Flatten{}, {"x"}, {}}, {"fc", square, {"flat"}, {}}}, {"fc", "flat"}))
          .find("layer 'fc': from 'fc' on"),
      std::string::npos);
  EXPECT_NE(refuse(stage({{"fc", Linear{.in = 3, .out = 5}, {"x"}, {}}}, {"fc"}))
                .find("layer 'fc' takes [4, 3, 3] of each sample"),
            std::string::npos);
  EXPECT_NE(refuse(stage({{"fc", Linear{.in = 3, .out = 5}, {"x"}, {}},
                          {"flat", Flatten{}, {"fc"}, {}},
                          {"last", Linear{.in = 60, .out = 5}, {"flat"}, {}},
                          {"pool", MaxPool{}, {"x"}, {}}},
                         {"last", "pool"}))
                .find("fc"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::train
