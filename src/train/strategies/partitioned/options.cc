#include "train/strategies/partitioned/options.h"

#include <algorithm>

#include "convoy/train/placement.h"
#include "train/strategies/reducer_keys.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kWays{"rows", "tiles", "units", "whole", "follows"};

model::Division division_of(const std::string& text) {
  return model::division_of(text).value_or(model::Division::rows);
}

}  // namespace

std::vector<Option> partitioned_keys() {
  std::vector<Option> keys{
      {"images", std::string("rows"),
       "how layers of images are divided: by rows, or by tiles of rows x columns"},
      {"tile_rows", std::int64_t{0},
       "tiles: rows of them, which divide grid.partitions; 0: as near to a square as can be"},
      {"overlap", true, "compute what needs nothing from others while that is on its way"},
      {"check", false, "before training, compare parts of layers of your own with the whole"}};
  for (Option& key : reducer_keys()) keys.push_back(std::move(key));
  return keys;
}

void check_partitioned(const Recipe& recipe, std::vector<std::string>& problems) {
  const Options& options = recipe.strategy_options;
  check_reducer_keys(recipe, problems);
  const std::string& images = options.text("images");
  if (images != "rows" && images != "tiles")
    problems.push_back("partitioned.images is '" + images + "'; it can be rows or tiles");
  const std::int64_t rows = options.integer("tile_rows");
  const std::int64_t partitions = recipe.grid.partitions;
  if (rows != 0 && images != "tiles") {
    problems.push_back("partitioned.tile_rows is " + std::to_string(rows) +
                       ", but partitioned.images is " + images + ": it is for tiles");
  } else if (rows < 0 || (rows > 0 && partitions % rows != 0)) {
    problems.push_back("partitioned.tile_rows is " + std::to_string(rows) +
                       "; it has to divide grid.partitions, which is " +
                       std::to_string(partitions));
  }
  if (recipe.training.accumulate > 1) {
    problems.push_back("training.accumulate is " + std::to_string(recipe.training.accumulate) +
                       "; with partitioned it can be 1");
  }
  check_placement(recipe, kWays, problems);
  for (std::size_t i = 0; i < recipe.placement.layers.size(); ++i) {
    const PlacementRule& rule = recipe.placement.layers[i];
    if (rule.parts.empty() || rule.how == "rows" || rule.how == "units") continue;
    problems.push_back("placement.layers[" + std::to_string(i) +
                       "].parts are for how = \"rows\" or \"units\", which has to be said");
  }
}

model::PartitionRules partition_rules(const Recipe& recipe, const model::Blueprint& blueprint) {
  const Options& options = recipe.strategy_options;
  model::PartitionRules rules;
  rules.partitions = static_cast<int>(recipe.grid.partitions);
  rules.images.how = division_of(options.text("images"));
  const int rows = static_cast<int>(options.integer("tile_rows"));
  if (rows > 0) rules.tiles = {rows, rules.partitions / rows};
  for (const LayerPlacement& layer : place_layers(recipe.placement, blueprint, "")) {
    if (!layer.how.empty()) rules.layers[layer.layer] = {division_of(layer.how), layer.parts};
  }
  return rules;
}

}  // namespace convoy::train
