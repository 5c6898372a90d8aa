// What a rank is said to need.
#include "train/strategies/partitioned/needs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/server_job.h"
#include "tests/base/scratch.h"
#include "tests/train/maps_no_more.h"
#include "tests/train/plain_networks.h"
#include "tests/train/planned_layer.h"
#include "tests/train/small_world.h"

namespace convoy::train {
namespace {

constexpr const char* kRecipe = R"(
name = "needs"
precision = "float64"
[model]
name = "mlp"
[data]
reader = "stripes"
[optimizer]
momentum = 0.9
[training]
batch = 1
epochs = 1
)";

// Two layers of ten parameters each, over three partitions.
PlannedNetwork two_convolutions() {
  using namespace model::layer;
  model::Blueprint net{"Two", {{1, 6, 4}}, {}};
  const Convolution three{.in = 1, .out = 1, .kernel = {3, 3}, .padding = {1, 1}};
  net.stages.push_back(
      {"s", {"x"}, {plain_node("a", three, {"x"}), plain_node("b", three, {"a"})}, {"b"}});
  return {net, {.partitions = 3}};
}

// Of a network that is not trained there are no gradients, and values of one layer at a time.
TEST(PartitionNeeds, AreThoseOfWhatItIsFor) {
  Registry registry;
  testing_data::add_small_world(registry);
  const Recipe recipe = parse_recipe({kRecipe, "needs.toml", "/"}, {}, registry.vocabulary());
  const PlannedNetwork planned = two_convolutions();
  const PartitionNeeds needs =
      needs_of(recipe, planned.net, planned.plan, 1, {.replicas = 1, .samples = 10, .copies = 2});
  // Four rows of four are read, and two given.
  const double layer = 8 * (16 + 8);
  EXPECT_EQ(needs.inferred, layer);
  EXPECT_EQ(needs.of(NetworkUse::training), 8 * (20 + 40 + 40) + 10 * needs.activations);
  EXPECT_EQ(needs.of(NetworkUse::inference), 8 * 20 + 10 * layer);
  // Copies of the parameters, and the buckets of a reducer that has nothing to do.
  EXPECT_EQ(needs.of(NetworkUse::following), 8 * (20 + 40 + 20) + 10 * layer);
  // Gradients of one layer, and of its values; what it gives once more.
  EXPECT_EQ(needs.of(NetworkUse::timing), 8 * (20 + 10) + 3 * 10 * layer);
  const std::string text =
      describe_needs(recipe, planned.net, planned.plan, {.replicas = 1, .samples = 10, .copies = 2},
                     NetworkUse::following);
  EXPECT_EQ(text.find("training"), std::string::npos) << text;
  EXPECT_NE(text.find("; what others train is kept for checkpoints in 480 B more, and an "
                      "evaluation takes 192 B for each sample: "),
            std::string::npos)
      << text;
}

// Values, gradients, one value of momentum; activations with copies of borders to send, and borders
// received.
TEST(PartitionNeeds, AreOfEightBytesEach) {
  Registry registry;
  testing_data::add_small_world(registry);
  const Recipe recipe = parse_recipe({kRecipe, "needs.toml", "/"}, {}, registry.vocabulary());
  const PlannedNetwork planned = two_convolutions();
  const PartitionNeeds needs = needs_of(recipe, planned.net, planned.plan, 1);
  EXPECT_EQ(needs.parameters, 8 * 20);
  // Gradients are added up over the partitions, in buckets into which they are copied.
  EXPECT_EQ(needs.training(), 8 * 60);
  EXPECT_EQ(needs.batch(), 0);
  const PartitionNeeds of_ten = needs_of(recipe, planned.net, planned.plan, 1, {1, 10});
  EXPECT_EQ(of_ten.batch(), 10 * needs.activations);
  EXPECT_EQ(of_ten.all(), 8 * 80 + of_ten.batch());
  // Two rows of four of both layers, and what they read: four rows of each.
  const double kept = 2 * 8 + 2 * 16;
  // To send: the first and the last row of a, and three rows of each image of its own, a third of
  // them, to either side; to receive: four rows of other images, two thirds of them.
  const double sent = 2 * 4 + 2 * 12 / 3.0, received = 16 * 2 / 3.0;
  EXPECT_DOUBLE_EQ(needs.activations, 8 * (kept + sent + received));
}

// What the recipe says of layers holds for more partitions, too: of one that is whole everybody has
// all.
TEST(PartitionNeeds, MorePartitionsAreAdvisedByTheRecipesRules) {
  Registry registry;
  testing_data::add_small_world(registry);
  using namespace model::layer;
  model::Blueprint net{"Two", {{1000}}, {}};
  const Linear square{.in = 1000, .out = 1000, .bias = false};
  net.stages.push_back(
      {"s", {"x"}, {plain_node("a", square, {"x"}), plain_node("b", square, {"a"})}, {"b"}});
  const PlannedNetwork planned(net, {.partitions = 2});
  Recipe recipe =
      parse_recipe({kRecipe, "needs.toml", "/"}, {"strategy=partitioned", "grid.partitions=2"},
                   registry.vocabulary());
  const auto enough = [&](const std::vector<PlacementRule>& rules, double memory) {
    recipe.placement.layers = rules;
    return enough_partitions(recipe, planned.net, planned.plan, {}, {.limits = {{memory, 0}}}, 1,
                             NetworkUse::training);
  };
  // Values, gradients and momentum of two layers of a million weights.
  const double all = 8.0 * 3 * 2e6;
  EXPECT_EQ(enough({}, all / 3), 4);
  EXPECT_EQ(enough({{{"a"}, "units", {3, 1}}}, all / 3), 4);
  EXPECT_EQ(enough({{{"a"}, "whole", {}}}, all / 3), 0);
  EXPECT_EQ(enough({{{"a"}, "whole", {}}}, all * 0.6), 8);
}

// Ranks that share memory have to have it together, with what each process takes by itself.
TEST(PartitionNeeds, RanksOfAHostShareItsMemory) {
  Registry registry;
  testing_data::add_small_world(registry);
  using namespace model::layer;
  model::Blueprint net{"One", {{1000}}, {}};
  const Linear square{.in = 1000, .out = 1024, .bias = false};
  net.stages.push_back({"s", {"x"}, {plain_node("a", square, {"x"})}, {"a"}});
  const PlannedNetwork planned(net, {.partitions = 1});
  const Recipe recipe =
      parse_recipe({kRecipe, "needs.toml", "/"}, {"strategy=partitioned"}, registry.vocabulary());
  const auto enough = [&](double shared, double own, int ranks) {
    return enough_partitions(recipe, planned.net, planned.plan, {},
                             {.limits = {{own, 0}, {shared, ranks}}, .all = 1, .own = 1e5}, 1,
                             NetworkUse::training);
  };
  const double all = 8.0 * 3 * 1024e3, none = 1e18;
  EXPECT_EQ(enough(none, all / 2, 1), 2);
  EXPECT_EQ(enough(all + 4e5, all / 4, 1), 4);
  // More processes don't make room for what all of them have together.
  EXPECT_EQ(enough(all * 0.9, none, 1), 0);
  EXPECT_EQ(enough(all * 0.9, none, 0), 2);
  EXPECT_EQ(enough(all + 2e5, all / 4, 1), 0);
}

// What is refused says what would do; whoever does it is not refused.
class PartitionAdvice : public testing::Test {
 protected:
  void SetUp() override {
    testing_data::add_small_world(registry_);
    using namespace model::layer;
    const Linear square{.in = 2000, .out = 2000, .bias = false};
    net_.stages.push_back({"s",
                           {"x"},
                           {plain_node("fc1", square, {"x"}), plain_node("fc2", square, {"fc1"})},
                           {"fc2"}});
  }
  Recipe recipe(std::vector<std::string> overrides) const {
    overrides.insert(overrides.begin(), "precision=float32");
    // Sandblaster has no optimizer.
    std::string text = kRecipe;
    if (std::find(overrides.begin(), overrides.end(), "strategy=sandblaster") != overrides.end())
      text.erase(text.find("[optimizer]"), text.find("[training]") - text.find("[optimizer]"));
    return parse_recipe({text, "needs.toml", "/"}, overrides, registry_.vocabulary());
  }
  // What a job with these keys is told where each process may have so much more.
  std::string said(const std::vector<std::string>& keys, double bytes, NetworkUse use, int ranks) {
    const Recipe job = recipe(keys);
    const Recipe own = is_server_job(job.strategy) ? replica_recipe(job) : job;
    const int partitions = static_cast<int>(own.grid.partitions);
    std::string text;
    comm::World::run_threads(ranks, [&](comm::World& world) {
      const model::PartitionPlan plan =
          plan_partition(net_, net_.inputs, partition_rules(own, net_, net_.inputs));
      // All threads are ready, which take some.
      world.communicator().barrier();
      std::optional<test::MapsNoMore> limit;
      if (world.rank() == 0) limit.emplace(bytes);
      world.communicator().barrier();
      std::string mine;
      try {
        check_needs(world, own, job, net_, plan, {.replicas = 1, .samples = 1},
                    world.rank() % partitions, use);
      } catch (const UsageError& error) {
        mine = error.what();
      }
      world.communicator().barrier();
      if (world.rank() == 0) text = mine;
    });
    return text;
  }
  // The keys with what is advised in place of others.
  static std::vector<std::string> advised(std::vector<std::string> keys, const std::string& text,
                                          int& ranks) {
    std::istringstream words(text.substr(text.rfind('(')));
    for (std::string word; words >> word;) {
      if (word == "(-n" || word == "-n") words >> ranks;
      if (word != "(--set" && word != "--set") continue;
      words >> word;
      std::erase_if(word, [](char c) { return c == '\'' || c == ')' || c == ','; });
      const std::string key = word.substr(0, word.find('=') + 1);
      std::erase_if(keys, [&](const std::string& one) { return one.starts_with(key); });
      keys.push_back(word);
    }
    if (text.find("without the parts in [[placement.layers]]") != std::string::npos) {
      std::erase_if(keys, [](const auto& one) { return one.starts_with("placement.layers"); });
    }
    return keys;
  }

  Registry registry_;
  model::Blueprint net_{"Two", {{2000}}, {}};
};

TEST_F(PartitionAdvice, OfATrainingWorks) {
  // Of 8 million values of four bytes there are three.
  const double all = 4.0 * 3 * 8e6;
  const std::vector<std::vector<std::string>> jobs{
      {"strategy=partitioned"},
      {"strategy=partitioned", "grid.partitions=2"},
      {"strategy=partitioned", "grid.partitions=2",
       R"(placement.layers=[{layers=["fc1"], how="units", parts=[3, 1]}])"},
      {"strategy=partitioned", "grid.partitions=2", "partitioned.balance=parameters",
       "partitioned.speeds=[1,2]"},
      {"strategy=downpour", "grid.partitions=2"}};
  for (const std::vector<std::string>& keys : jobs) {
    int ranks = static_cast<int>(recipe(keys).grid.partitions);
    const bool servers = keys[0] == "strategy=downpour";
    const double left = all / 3;
    const std::string text = said(keys, left, NetworkUse::training, ranks);
    ASSERT_NE(text.find(" needs "), std::string::npos) << keys.back();
    ASSERT_NE(text.find("let grid.partitions be "), std::string::npos) << text;
    EXPECT_EQ(text.find(" -n ") == std::string::npos, servers) << text;
    const std::vector<std::string> more = advised(keys, text, ranks);
    if (servers) ranks = static_cast<int>(recipe(more).grid.partitions);
    EXPECT_EQ(said(more, left, NetworkUse::training, ranks), "") << text;
  }
}

// Even parts that would not fit say nothing of those that measured times choose: what measuring
// takes has to be there, and then what these take.
TEST_F(PartitionAdvice, OfPartsByTimeIsOfThoseThatAreTrained) {
  std::vector<std::string> keys{"strategy=partitioned", "grid.partitions=2",
                                "partitioned.balance=time"};
  // Two ranks have 4 million values each of four bytes: three of each in training, and to measure
  // them one, with the gradients of a layer.
  const double all = 4.0 * 4e6, left = 2.25 * all;
  const std::string even = said(keys, left, NetworkUse::training, 2);
  EXPECT_NE(even.find(" in 2 partitions, to train it ("), std::string::npos) << even;
  EXPECT_EQ(said(keys, left, NetworkUse::timing, 2), "");
  const std::string timing = said(keys, 1.25 * all, NetworkUse::timing, 2);
  EXPECT_NE(timing.find(", to time its layers, as partitioned.balance = \"time\" does before it "
                        "divides them (parameters, gradients of a layer, and values of 1 sample), "
                        "and can have "),
            std::string::npos)
      << timing;
  keys.emplace_back(R"(partitioned.parts=["fc1: 1000 1000", "fc2: 1000 1000"])");
  const std::string chosen = said(keys, left, NetworkUse::training, 2);
  EXPECT_NE(chosen.find(" in 2 partitions with the parts that partitioned.parts notes, to train "),
            std::string::npos)
      << chosen;
  // Another balance is advised where it would do.
  const std::string advice =
      "; or let all ranks hold as much (partitioned.balance = \"parameters\")";
  EXPECT_EQ(chosen.find(advice), std::string::npos) << chosen;
  keys.back() = R"(partitioned.parts=["fc1: 1500 500", "fc2: 1500 500"])";
  const std::string uneven = said(keys, 3.6 * all, NetworkUse::training, 2);
  EXPECT_TRUE(uneven.ends_with(advice)) << uneven;
}

TEST_F(PartitionAdvice, OfANetworkThatIsUsedIsWhatItWasTrainedOn) {
  const double left = 4 * 8e6 / 2;
  const auto use = [&](const Recipe& job) {
    const PlannedNetwork whole(net_, {.partitions = 1});
    Recipe own = job;
    if (is_server_job(job.strategy)) own = replica_recipe(job);
    std::string text;
    comm::World::run_threads(1, [&](comm::World& world) {
      const test::MapsNoMore limit(left);
      text = test::message_of<UsageError>([&] {
        check_needs(world, own, job, net_, whole.plan, {.replicas = 1, .samples = 1}, 0,
                    NetworkUse::inference);
      });
    });
    return text;
  };
  for (const std::string strategy : {"partitioned", "downpour", "sandblaster"}) {
    const std::string text = use(recipe(
        {"strategy=" + strategy, "grid.partitions=3", "training.steps=9", "training.epochs=0"}));
    EXPECT_TRUE(text.starts_with("rank 0 needs ")) << text;
    EXPECT_NE(text.find(" to use it (parameters, and values of 1 sample), and can have "),
              std::string::npos)
        << text;
    EXPECT_TRUE(text.ends_with(": use it in 3 partitions (-n 3)")) << text;
  }
  const std::string text = use(recipe({"strategy=partitioned"}));
  EXPECT_TRUE(text.ends_with("(--set grid.partitions=4 -n 4)")) << text;
}

// Where the parameters fit and a mini-batch does not, a smaller one is advised, and it fits.
TEST_F(PartitionAdvice, OfAnEvaluationOfTooManySamplesWorks) {
  const Recipe job = recipe({"strategy=partitioned"});
  const PlannedNetwork whole(net_, {.partitions = 1});
  const auto use = [&](std::int64_t samples) {
    std::string text;
    comm::World::run_threads(1, [&](comm::World& world) {
      const test::MapsNoMore limit(4 * 8e6 + (16 << 20));
      text = test::message_of<UsageError>([&] {
        check_needs(world, job, job, net_, whole.plan, {.replicas = 1, .samples = samples}, 0,
                    NetworkUse::inference);
      });
    });
    return text;
  };
  const std::string text = use(1 << 20);
  const std::string key = "--set evaluation.batch=";
  ASSERT_NE(text.find(": let evaluation.batch be "), std::string::npos) << text;
  const std::int64_t most = std::stoll(text.substr(text.find(key) + key.size()));
  EXPECT_GT(most, 100);
  EXPECT_EQ(use(most - 1), "");
  EXPECT_NE(use(most + most / 8), "");
}

}  // namespace
}  // namespace convoy::train
