// Parts of layers that the recipe leaves to partitioned.balance.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/toml_text.h"
#include "convoy/train/memory.h"
#include "train/strategies/partitioned/balance.h"
#include "train/strategies/partitioned/needs.h"
#include "train/strategies/partitioned/options.h"
#include "train/strategies/partitioned/part_times.h"
#include "train/strategies/partitioned/strategy.h"

namespace convoy::train {
namespace {

// Of what partitions measure, no layer needs more samples to show how it compares with others.
constexpr std::int64_t kMostRows = 64;
// Of a step: what is less may be chance, and equal machines are to have equal parts.
constexpr double kLeastGain = 0.03;

// What rank 0 has chosen: others may round otherwise.
void share(const comm::Communicator& all, model::LayerParts& parts) {
  std::vector<std::int64_t> counts;
  for (const auto& [layer, own] : parts) counts.insert(counts.end(), own.begin(), own.end());
  if (counts.empty()) return;
  all.broadcast(comm::buffer_of(counts), 0);
  auto next = counts.begin();
  for (auto& [layer, own] : parts) {
    for (std::int64_t& count : own) count = *next++;
  }
}

std::string text_of_speeds(const std::vector<double>& speeds) {
  std::string text;
  for (const double speed : speeds)
    text += (text.empty() ? "" : ", ") + shortest(std::round(speed * 1000) / 1000);
  return text;
}

}  // namespace

model::LayerParts Partitioned::timed_parts(const NetworkSource& source,
                                           const model::Blueprint& blueprint,
                                           const model::PartitionPlan& plan) const {
  const Recipe& recipe = source.recipe();
  const int replicas = grid_->shape().replicas;
  // A batch normalization within a module of the user's needs two.
  const auto rows = std::clamp<std::int64_t>(recipe.training.batch / replicas, 2, kMostRows);
  // What even parts would take in training says nothing of those that come of it: build() checks
  // these.
  check_needs(*world_, recipe, source.job(), blueprint, plan,
              {.replicas = replicas, .samples = rows}, grid_->partition(), NetworkUse::timing);
  if (world_->rank() == 0) world_->log().info("partitions: measuring their layers");
  PartitionedNetwork network(blueprint, plan, source.seed(), grid_->partition());
  compute_->place(network);
  const auto seconds = time_parts(*world_, {.network = network,
                                            .partition = grid_->partition(),
                                            .compute = *compute_,
                                            .blanks = blanks_,
                                            .rows = rows});
  const model::TimedCosts timed = timed_costs(plan, seconds);
  if (world_->rank() == 0)
    world_->log().info("partitions: their speeds are " + text_of_speeds(timed.speeds));
  return balanced_parts(plan, blueprint, timed.costs, timed.speeds, kLeastGain);
}

Options Partitioned::settle(const NetworkSource& source, const Recipe* before) {
  const Recipe& recipe = source.recipe();
  Options options = recipe.strategy_options;
  const std::string& balance = recipe.strategy_options.text("balance");
  if (balance == kEven) return options;
  const model::Blueprint blueprint = blueprint_of(source);
  const model::PartitionPlan plan = divided_by_hand(recipe, blueprint, input_shapes()).plan;
  const auto say = [&](const std::string& what) {
    if (world_->rank() == 0) world_->log().info("partitions: " + what);
  };
  if (before != nullptr && before->strategy != recipe.strategy) before = nullptr;
  const bool otherwise = before != nullptr && !balance_alike(recipe, *before);
  // The recipe of a run that goes on may be its own, with what was chosen by other rules.
  const bool outdated = otherwise && recipe.strategy_options.texts("parts") ==
                                         before->strategy_options.texts("parts");
  std::optional<model::LayerParts> parts;
  if (before != nullptr && !otherwise) parts = noted_parts(*before, plan, blueprint);
  if (parts) say("parts of layers as in the checkpoint");
  if (!parts && !outdated) {
    parts = noted_parts(recipe, plan, blueprint);
    if (parts) say("parts of layers as partitioned.parts notes them");
  }
  if (!parts) {
    const bool timed = balance == kByTime && plan.partitions > 1;
    parts = timed ? timed_parts(source, blueprint, plan) : counted_parts(recipe, plan, blueprint);
    if (timed) release_large_blocks();  // that measuring took: other memory goes by what is free
    say("parts of layers chosen by " + balance);
  }
  share(world_->communicator(), *parts);
  options.set("parts", text_of(*parts));
  return options;
}

}  // namespace convoy::train
