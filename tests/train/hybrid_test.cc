// Ranks that share fully connected layers train what one process does.
#include <cmath>
#include <iomanip>
#include <sstream>

#include "convoy/model/factory.h"
#include "convoy/model/modules.h"
#include "convoy/train/rehearsal.h"
#include "tests/train/hybrid_fixture.h"
#include "train/strategies/hybrid/rates.h"
#include "train/strategies/hybrid/split.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kDrop{"model.options.dropout=0.4"};

// The last batch of an epoch leaves all ranks but one without any sample.
TEST_F(HybridTest, EverySchemeTrainsAsOneProcess) {
  const RunResult serial = train_on(1, net("serial", kDrop));
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      const std::string name = grid.name() + scheme.name;
      const RunResult result = train_on(grid.ranks(), hybrid(name, grid, kDrop + scheme.overrides));
      expect_equal(serial, result, name);
    }
  }
}

TEST_F(HybridTest, FiftyUpdatesAreThoseOfOneProcess) {
  const Overrides how = kDrop + Overrides{"training.epochs=0", "training.steps=50"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      const std::string name = grid.name() + scheme.name;
      if (scheme.name.starts_with("bc") && scheme.name != "bc2")
        continue;  // the others are b and c
      expect_equal(serial, train_on(grid.ranks(), hybrid(name, grid, how + scheme.overrides)),
                   name);
    }
  }
}

TEST_F(HybridTest, HoweverItIsTrained) {
  int number = 0;
  for (const Overrides& how :
       {Overrides{"training.clip_norm=0.05"},
        Overrides{"optimizer.name=adam", "optimizer.momentum=0"},
        Overrides{"data.on_bad=skip", "data.train.bad_every=7"}, Overrides{"training.batch=11"},
        Overrides{"optimizer.name=sgd_velocity"}, Overrides{"task.name=one_vs_all"},
        Overrides{"task.options.label_smoothing=0.1"},
        Overrides{R"(optimizer.groups=[{parameters=["c.6.*"], lr_scale=0.5, weight_decay=0.01}])"},
        Overrides{"evaluation.batch=7"}, Overrides{"model.channels_last=true"}}) {
    const std::string tag = std::to_string(number++);
    const RunResult serial = train_on(1, net("serial" + tag, kDrop + how));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + tag;
      expect_equal(serial, train_on(grid.ranks(), hybrid(name, grid, kDrop + how)),
                   name + how.front());
    }
  }
}

TEST_F(HybridTest, NormsAreThoseOfWholeParameters) {
  int number = 0;
  for (const Overrides& how : layerwise_rules()) {
    const std::string tag = std::to_string(number++);
    const RunResult serial = train_on(1, net("serial" + tag, how));
    expect_equal(serial, train_on(ranks(), net("sync" + tag, how)), "sync" + how.front());
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + tag;
      expect_equal(serial, train_on(grid.ranks(), hybrid(name, grid, how)), name + how.front());
    }
  }
}

TEST_F(HybridTest, HoweverGradientsTravel) {
  const RunResult serial = train_on(1, net("serial", kDrop));
  for (const GridOf& grid : grids()) {
    for (const char* how : {"hybrid.reproducible=true", "hybrid.allreduce=ring",
                            "hybrid.bucket=256B", "hybrid.wire=bfloat16"}) {
      const std::string name = grid.name() + how;
      // What bfloat16 keeps of a number, some updates long; gradients alone travel so.
      const bool rounded = std::string(how).ends_with("bfloat16");
      const RunResult result = train_on(grid.ranks(), hybrid(name, grid, kDrop + Overrides{how}));
      if (!rounded) expect_equal(serial, result, name);
      if (rounded && first())
        EXPECT_LT(relative_difference(serial.checkpoint, result.checkpoint), 0.05) << name;
    }
  }
}

// Sums of divided layers over groups are those of the recipe, too.
TEST_F(HybridTest, GroupsAddUpAsTheRecipeSays) {
  const std::int64_t kUpdates = 2;
  for (const GridOf& grid : grids()) {
    for (const char* wire : {"own", "bfloat16"}) {
      for (const char* scheme : {"hybrid.scheme=c", "hybrid.variable_batch=true"}) {
        if (grid.partitions == 1 && std::string(scheme) != "hybrid.scheme=c") continue;
        const Recipe r = hybrid("groups", grid,
                                {"precision=float32", std::string("hybrid.wire=") + wire, scheme,
                                 "training.batch=" + std::to_string(4 * ranks())});
        Rehearsal rehearsal(test_world(), registry_, r);
        rehearsal.make_updates(kUpdates);
        std::int64_t elements = 0;
        const auto& network = dynamic_cast<const SplitNetwork&>(rehearsal.strategy().module());
        for (const auto& [name, slice] : network.parts()) elements += slice.elements();
        const auto sums = static_cast<std::uint64_t>(
            kUpdates * (std::string(scheme) == "hybrid.scheme=c" ? 1 : grid.partitions));
        const std::uint64_t each = std::string(wire) == "own" ? 4 : 2;
        EXPECT_EQ(rehearsal.strategy().communicated().group_sum_bytes,
                  grid.replicas == 1 ? 0 : sums * each * static_cast<std::uint64_t>(elements))
            << grid.name() << " " << wire << " " << scheme;
      }
    }
  }
}

// Networks of Dean et al.: all layers divided, and those behind the locally connected ones.
TEST_F(HybridTest, DividesNetworksWithSigmoidsAndLocalFilters) {
  const std::vector<Overrides> networks{
      {"model.name=speech-dnn", "model.options.hidden=13", "model.options.depth=2"},
      {"model.name=local-image", "model.options.maps=[3]", "model.options.strides=[1]",
       "model.options.pools=[2]", "model.options.pool_strides=[1]", "model.options.filter=3"}};
  for (const Overrides& how : networks) {
    const RunResult serial = train_on(1, net("serial-" + how[0], how));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + how[0];
      expect_equal(serial, train_on(grid.ranks(), hybrid(name, grid, how)), name);
    }
  }
}

// Its features have one value a sample, so that no batch normalization can be trained on one
// sample.
model::Blueprint thin_network(const ModelRequest& request) {
  using namespace model::layer;
  model::Blueprint net{"Thin", {{1, 6, 6}}, {}};
  net.stages.push_back({"conv",
                        {"x"},
                        {{"conv", Convolution{.in = 1, .out = 4, .kernel = {6, 6}}, {"x"}, nullptr},
                         {"bn", BatchNorm{.channels = 4}, {"conv"}, nullptr}},
                        {"bn"}});
  net.stages.push_back({"fc",
                        {"x"},
                        {{"flatten", Flatten{}, {"x"}, nullptr},
                         {"fc", Linear{.in = 4, .out = request.classes}, {"flatten"}, nullptr}},
                        {"fc"}});
  return net;
}

// A sample that is alone in its share is left out, and counted once.
TEST_F(HybridTest, SamplesLeftOutAreCountedAsSyncDoes) {
  registry_.add_model("thin", thin_network, {});
  const Overrides how{"model.name=thin",        "data.on_bad=skip",
                      "data.train.bad_every=2", "training.batch=" + std::to_string(3 * ranks()),
                      "training.epochs=2",      "data.drop_last=true"};
  const auto counts = [&](const Recipe& r) {
    train_on(ranks(), r);
    std::vector<std::pair<int, int>> counts;
    if (!first()) return counts;
    for (const auto& row : rows(r, "step")) counts.emplace_back(row["samples"], row["skipped"]);
    return counts;
  };
  const auto expected = counts(net("sync", how));
  if (first()) EXPECT_GT(expected.size(), 3u);
  for (const GridOf& grid : grids())
    EXPECT_EQ(counts(hybrid(grid.name(), grid, how)), expected) << grid.name();
}

// Counts samples that become tensors in training, and those that become targets.
class CountedTask final : public Classification {
 public:
  using Classification::Classification;
  TaskBatch tensors(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override {
    if (torch::GradMode::is_enabled()) made += rows.size();
    return Classification::tensors(batch, rows, compute);
  }
  TaskBatch targets(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override {
    const TaskBatch part = Classification::targets(batch, rows, compute);
    EXPECT_EQ(part.tensors.size(), 1u) << "labels";
    if (torch::GradMode::is_enabled()) targeted += rows.size();
    return part;
  }
  static inline std::size_t made = 0, targeted = 0;

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    return torch::nn::functional::cross_entropy(scores, labels);
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override { return scores; }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }
};

// However many passes there are, images become tensors once.
TEST_F(HybridTest, PassesNeedLabelsAlone) {
  registry_.add_task(
      "counted", [](const Recipe& r) { return std::make_unique<CountedTask>(r); },
      registry_.vocabulary().tasks.at("classification"));
  for (const GridOf& grid : grids()) {
    for (const char* scheme : {"a", "b", "c"}) {
      const Recipe r = hybrid(grid.name() + scheme, grid,
                              {"task.name=counted", std::string("hybrid.scheme=") + scheme,
                               "training.batch=12", "data.drop_last=true"});
      CountedTask::made = CountedTask::targeted = 0;
      train_on(grid.ranks(), r);
      // Five batches of 12; labels are made with the images, and for the passes.
      const std::size_t mine = 60 / static_cast<std::size_t>(ranks());
      EXPECT_EQ(CountedTask::made, mine) << grid.name() << scheme;
      EXPECT_EQ(CountedTask::targeted, 2 * mine) << grid.name() << scheme;
    }
  }
}

// Units need not divide, nor be shared out evenly; a layer less is partitioned; or no other.
TEST_F(HybridTest, HoweverLayersArePlaced) {
  const RunResult serial = train_on(1, net("serial", kDrop));
  for (const GridOf& grid : grids()) {
    std::string parts = "3";
    for (int p = 1; p < grid.partitions; ++p) parts += p % 2 == 1 ? ",1" : ",1.5";
    const Overrides rules{R"([{layers=["c.*"], how="partitioned", parts=[)" + parts + "]}]",
                          R"([{layers=["c.1"], how="partitioned", parts=[)" + parts +
                              R"(]}, {layers=["c.6"], how="partitioned"}])",
                          R"([{layers=["c.1"], how="replicated"}])",
                          R"([{layers=["c.1", "c.4"], how="replicated"}])"};
    int number = 0;
    for (const std::string& rule : rules) {
      for (const char* scheme : {"b", "c"}) {
        const std::string name = grid.name() + scheme + std::to_string(number);
        expect_equal(serial,
                     train_on(grid.ranks(),
                              hybrid(name, grid,
                                     kDrop + Overrides{"placement.layers=" + rule,
                                                       std::string("hybrid.scheme=") + scheme})),
                     name + rule);
      }
      ++number;
    }
  }
}

TEST_F(HybridTest, BatchNormalizationOverAllRanks) {
  const Overrides how{"model.options.norm=true", "data.drop_last=true"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    expect_equal(serial,
                 train_on(grid.ranks(), hybrid(grid.name(), grid,
                                               how + Overrides{"hybrid.batch_norm=synchronized"})),
                 grid.name());
  }
}

TEST_F(HybridTest, InFloatAndMixedPrecision) {
  const Overrides single{"precision=float32"}, mixed{"precision=bfloat16"};
  const RunResult serial = train_on(1, net("serial", kDrop + single));
  const RunResult rough = train_on(1, net("rough", kDrop + mixed));
  for (const GridOf& grid : grids()) {
    expect_equal(serial, train_on(grid.ranks(), hybrid(grid.name(), grid, kDrop + single)),
                 grid.name(), 1e-4);
    const RunResult result = train_on(grid.ranks(), hybrid(grid.name() + "m", grid, kDrop + mixed));
    if (!first()) continue;
    EXPECT_EQ(state_of(result.checkpoint).model.at("c.1.weight").scalar_type(), torch::kFloat);
    EXPECT_LT(relative_difference(rough.checkpoint, result.checkpoint), 0.05);
  }
}

TEST_F(HybridTest, RatesFollowTheBatch) {
  EXPECT_NEAR(decay_for_root(0.01, 0.0005, 1024.0 / 128), 0.0014141888, 5e-11);
  EXPECT_DOUBLE_EQ(decay_for_root(0.01, 0.0005, 1), 0.0005);
  EXPECT_EQ(decay_for_root(0.01, 0, 8), 0);
  EXPECT_DOUBLE_EQ(decay_for_root(0, 0.0005, 4), 0.001);
  EXPECT_EQ(rate_scale(RateRule::linear, 8), 8);
  EXPECT_DOUBLE_EQ(rate_scale(RateRule::root, 8), std::sqrt(8));
  EXPECT_EQ(rate_scale(RateRule::own, 8), 1);
  const auto decay = [](double rate, double own) {
    std::ostringstream text;
    text << std::setprecision(17) << decay_for_root(rate, own, 4);
    return text.str();
  };
  const Overrides rest{"hybrid.base_batch=3"};
  const RunResult linear = train_on(1, net("linear", {"optimizer.weight_decay=0.01"}));
  const RunResult root = train_on(
      1, net("root", {"schedule.name=constant", "optimizer.weight_decay=" + decay(0.05, 0.01),
                      R"(optimizer.groups=[{parameters=["c.6.*"], lr_scale=2, weight_decay=)" +
                          decay(0.1, 0.03) + R"(}, {max_dims=1, lr_scale=3, weight_decay=)" +
                          decay(0.15, 0.01) + "}]"}));
  for (const GridOf& grid : grids()) {
    expect_equal(
        linear,
        train_on(grid.ranks(), hybrid(grid.name(), grid,
                                      rest + Overrides{"hybrid.rates=linear", "optimizer.lr=0.025",
                                                       "optimizer.weight_decay=0.01"})),
        grid.name());
    expect_equal(
        root,
        train_on(grid.ranks(),
                 hybrid(grid.name() + "root", grid,
                        rest + Overrides{"schedule.name=constant", "hybrid.rates=sqrt",
                                         "optimizer.lr=0.05", "optimizer.weight_decay=0.01",
                                         R"(optimizer.groups=[{parameters=["c.6.*"], lr_scale=2, )"
                                         R"(weight_decay=0.03}, {max_dims=1, lr_scale=3}])"})),
        grid.name());
  }
}

// Weights decay as much in as many samples at the rate that there is at the time.
TEST_F(HybridTest, TheDecayThatFitsTheRateFollowsTheSchedule) {
  const Overrides falling{"schedule.name=step", "schedule.unit=steps", "schedule.milestones=[3]",
                          "schedule.gamma=0.1", "optimizer.momentum=0"};
  const auto decayed = [&](double rate) {
    std::ostringstream text;
    text << std::setprecision(17) << "optimizer.weight_decay=" << decay_for_root(rate, 0.4, 4);
    return net("root", falling + Overrides{text.str()});
  };
  // The rate is 2 x 0.05, and a tenth of that after three updates.
  train_on(1, decayed(0.05), 3);
  const RunResult root = train_on(1, decayed(0.005), 0, "latest");
  for (const GridOf& grid : grids()) {
    for (const char* optimizer : {"sgd", "sgd_velocity"}) {
      const Recipe r = hybrid(grid.name() + optimizer, grid,
                              falling + Overrides{"hybrid.base_batch=3", "hybrid.rates=sqrt",
                                                  "optimizer.lr=0.05", "optimizer.weight_decay=0.4",
                                                  std::string("optimizer.name=") + optimizer});
      expect_equal(root, train_on(grid.ranks(), r), grid.name() + optimizer);
    }
  }
}

// First values of parts are those of the whole, for modules of the user's, too.
TEST_F(HybridTest, PartsOfListedModulesHaveTheirValues) {
  model::ModuleList list("Mine", {1, 6, 6});
  list.add("conv", torch::nn::Conv2d(1, 3, 3)).add("relu", torch::nn::ReLU());
  list.add("flat", torch::nn::Flatten()).add("fc1", torch::nn::Linear(48, 7));
  list.add("drop", torch::nn::Dropout(0.5)).add("fc2", torch::nn::Linear(7, 5));
  const auto whole = list.network();
  const model::Blueprint blueprint = list.blueprint();
  std::vector<torch::Tensor> parts;
  for (int p = 0; p < 3; ++p) {
    const SplitNetwork own(blueprint, blueprint.inputs, {}, 1, p, 3);
    parts.push_back(own.named_parameters()["fc1.weight"].detach());
    EXPECT_TRUE(own.drops_units());
    EXPECT_EQ(own.whole_parameters(), model::parameter_count(*whole));
    EXPECT_TRUE(
        own.named_parameters()["conv.weight"].equal(whole->named_parameters()["conv.weight"]));
    EXPECT_EQ(own.parts().at("fc2.bias").shape, (std::vector<std::int64_t>{5}));
  }
  EXPECT_TRUE(torch::cat(parts).equal(whole->named_parameters()["fc1.weight"]));
}

}  // namespace
}  // namespace convoy::train
