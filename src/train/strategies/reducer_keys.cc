#include "train/strategies/reducer_keys.h"

#include <set>

#include "comm/collectives/allreduce/selection.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::train {

std::vector<Option> reducer_keys() {
  return {
      {"batch_norm", std::string("local"),
       "statistics in training: of each rank alone (local), or of all (synchronized)"},
      {"bucket", std::string("8MiB"), "gradients that are reduced together"},
      {"first_bucket", std::string("1MiB"),
       "the first of them, so that communication starts early"},
      {"allreduce", std::string(""), "rules that choose the algorithm; empty: the usual choice"},
      {"reproducible", false,
       "sums over ranks with the same bits for every algorithm, bucket and order of ranks"},
      {"wire", std::string("own"), "type in which gradients travel: own, or bfloat16"},
      {"compute_in_buckets", true,
       "gradients of large fully connected layers are computed where they are reduced, and not "
       "copied there"}};
}

void check_reducer_keys(const Recipe& recipe, std::vector<std::string>& problems) {
  const auto choose = [&](const char* key, const char* a, const char* b) {
    const std::string& value = recipe.strategy_options.text(key);
    if (value == a || value == b) return;
    problems.push_back(recipe.strategy + "." + key + " is '" + value + "'; it can be " + a +
                       " or " + b);
  };
  choose("batch_norm", "local", "synchronized");
  choose("wire", "own", "bfloat16");
  const auto size = [&](const char* key) {
    const std::string& value = recipe.strategy_options.text(key);
    try {
      if (parse_bytes(value) > 0) return;
    } catch (const UsageError&) {
    }
    problems.push_back(recipe.strategy + "." + key + " is '" + value +
                       "'; it has to be a size above 0, as \"8MiB\" or \"512k\"");
  };
  size("bucket");
  size("first_bucket");
  try {
    comm::AllreduceSelection(recipe.strategy_options.text("allreduce"),
                             recipe.strategy + ".allreduce");
  } catch (const UsageError& error) {
    problems.emplace_back(error.what());
  }
}

std::vector<std::string> order_that_fits(const std::vector<std::string>& saved,
                                         const torch::nn::Module& network) {
  std::set<std::string> mine, theirs(saved.begin(), saved.end());
  for (const auto& parameter : parallel::unique_parameters(network)) {
    if (parameter.tensor.requires_grad()) mine.insert(parameter.name);
  }
  return mine == theirs ? saved : std::vector<std::string>();
}

bool synchronized_statistics(const Recipe& recipe) {
  return recipe.strategy_options.text("batch_norm") == "synchronized";
}

parallel::DistributedOptions distributed_options(const Recipe& recipe) {
  const Options& keys = recipe.strategy_options;
  parallel::DistributedOptions options;
  options.bucket_bytes = parse_bytes(keys.text("bucket"));
  options.first_bucket_bytes = parse_bytes(keys.text("first_bucket"));
  options.allreduce = keys.text("allreduce");
  options.reproducible = keys.flag("reproducible");
  options.compute_in_buckets = keys.flag("compute_in_buckets");
  if (keys.text("wire") == "bfloat16") options.wire_type = at::kBFloat16;
  if (synchronized_statistics(recipe))
    options.batch_norm = parallel::BatchNormStatistics::synchronized;
  return options;
}

}  // namespace convoy::train
