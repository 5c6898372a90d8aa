#include "train/strategies/partitioned/options.h"

#include <algorithm>

#include "convoy/base/names.h"
#include "convoy/train/placement.h"
#include "train/strategies/partitioned/balance.h"
#include "train/strategies/reducer_keys.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kBalances{kEven, "parameters", "macs", kByTime};
const std::vector<std::string> kWays{"rows", "tiles", "units", "whole", "follows"};

model::Division division_of(const std::string& text) {
  return model::division_of(text).value_or(model::Division::rows);
}

void check_speeds(const Recipe& recipe, std::vector<std::string>& problems) {
  const std::vector<double>& speeds = recipe.strategy_options.numbers("speeds");
  const std::string& balance = recipe.strategy_options.text("balance");
  if (speeds.empty()) return;
  if (balance == kEven) {
    problems.push_back(
        "partitioned.speeds are for partitioned.balance = \"parameters\" or \"macs\"; it is even");
  } else if (balance == kByTime) {
    problems.push_back(
        "partitioned.speeds are measured where partitioned.balance is \"time\": leave them out");
  }
  if (static_cast<std::int64_t>(speeds.size()) != recipe.grid.partitions) {
    problems.push_back("partitioned.speeds has " + std::to_string(speeds.size()) +
                       (speeds.size() == 1 ? " number" : " numbers") +
                       "; it has to have one for each of the partitions: grid.partitions is " +
                       std::to_string(recipe.grid.partitions));
  }
  // Far apart is a mistake, or a partition that had better not be there.
  constexpr double kLeast = 1e-6, kMost = 1e6;
  if (!std::all_of(speeds.begin(), speeds.end(),
                   [](double speed) { return speed >= kLeast && speed <= kMost; })) {
    problems.push_back("partitioned.speeds have to be numbers from 0.000001 to 1000000");
  }
}

void check_balance(const Recipe& recipe, std::vector<std::string>& problems) {
  const Options& options = recipe.strategy_options;
  const std::string& balance = options.text("balance");
  if (std::find(kBalances.begin(), kBalances.end(), balance) == kBalances.end()) {
    const std::string near = nearest_name(balance, kBalances);
    problems.push_back("partitioned.balance is '" + balance +
                       "'; it can be even, parameters, macs or time" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
    return;
  }
  check_speeds(recipe, problems);
  const std::vector<std::string>& parts = options.texts("parts");
  if (parts.empty()) return;
  if (balance == kEven) {
    problems.push_back(
        "partitioned.parts are what partitioned.balance has chosen, which is even: leave them out "
        "(parts of your own are for [[placement.layers]])");
  } else if (!parts_of(parts)) {
    problems.push_back(
        "partitioned.parts has to have a text \"LAYER: 4 3 3\" for each layer, with as many rows "
        "or "
        "units as each partition has of it");
  }
}

}  // namespace

std::vector<Option> partitioned_keys() {
  std::vector<Option> keys{
      {"images", std::string("rows"),
       "how layers of images are divided: by rows, or by tiles of rows x columns"},
      {"tile_rows", std::int64_t{0},
       "tiles: rows of them, which divide grid.partitions; 0: as near to a square as can be"},
      {"balance", std::string(kEven),
       "what is alike on all partitions where no rule gives parts: even (rows or units), "
       "parameters, macs (multiply-adds), or time, measured before training"},
      {"speeds", std::vector<double>{},
       "of the partitions, relative to each other, for balance = parameters or macs; [1, 1, 0.5]"},
      {"parts", std::vector<std::string>{},
       "what balance has chosen: noted by runs, and used where it fits; empty: it chooses"},
      {"overlap", true, "compute what needs nothing from others while that is on its way"},
      {"check", true, "before anything else, compare parts of layers of your own with the whole"}};
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
  check_balance(recipe, problems);
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

model::PartitionRules rules_by_hand(const Recipe& recipe, const model::Blueprint& blueprint) {
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
