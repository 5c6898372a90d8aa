#include "train/strategies/hybrid/options.h"

#include "convoy/base/units.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/placement.h"

namespace convoy::train {

std::vector<Option> hybrid_keys() {
  return {
      {"scheme", std::string("c"),
       "whose samples the partitioned layers take at a time: all (a), one rank's (b), some of each "
       "rank's (c), some of several ranks' (bc)"},
      {"senders", std::int64_t{0}, "bc: of how many ranks"},
      {"variable_batch", false,
       "update partitioned layers after each of the passes, with a batch of its samples"},
      {"rates", std::string("own"),
       "for batches k times as large as base_batch: the optimizer's own, k times them (linear), or "
       "sqrt(k) times them with the weight decay that fits (sqrt)"},
      {"base_batch", std::int64_t{128}, "the batch that the optimizer's rates are for"},
      {"batch_norm", std::string("local"),
       "statistics in training: of each rank alone (local), or of all (synchronized)"},
      {"bucket", std::string("8MiB"), "gradients that are reduced together"},
      {"first_bucket", std::string("1MiB"),
       "the first of them, so that communication starts early"},
      {"allreduce", std::string(""), "rules that choose the algorithm; empty: the usual choice"},
      {"reproducible", false,
       "sums of gradients over ranks with the same bits for every algorithm, bucket and order of "
       "ranks"},
      {"wire", std::string("own"),
       "type in which gradients of layers that are not partitioned travel: own, or bfloat16"}};
}

void check_hybrid(const Recipe& recipe, std::vector<std::string>& problems) {
  const Options& options = recipe.strategy_options;
  const auto choose = [&](const char* key, const char* a, const char* b) {
    const std::string& value = options.text(key);
    if (value == a || value == b) return;
    problems.push_back(std::string("hybrid.") + key + " is '" + value + "'; it can be " + a +
                       " or " + b);
  };
  choose("batch_norm", "local", "synchronized");
  choose("wire", "own", "bfloat16");
  const std::string& scheme = options.text("scheme");
  const std::int64_t senders = options.integer("senders");
  if (scheme != "a" && scheme != "b" && scheme != "c" && scheme != "bc") {
    problems.push_back("hybrid.scheme is '" + scheme + "'; it can be a, b, c or bc");
  } else if (scheme == "bc" && (senders < 1 || senders > recipe.grid.partitions)) {
    problems.push_back("hybrid.senders is " + std::to_string(senders) +
                       "; with scheme bc it can be from 1 to grid.partitions, which is " +
                       std::to_string(recipe.grid.partitions));
  } else if (scheme != "bc" && senders != 0) {
    problems.push_back("hybrid.senders is " + std::to_string(senders) + ", but hybrid.scheme is " +
                       scheme + ": it is for scheme bc");
  }
  if (scheme == "a" && options.flag("variable_batch")) {
    problems.push_back(
        "hybrid.variable_batch updates partitioned layers after each pass, and scheme a has one: "
        "choose b, c or bc");
  }
  const std::string& rates = options.text("rates");
  if (rates != "own" && rates != "linear" && rates != "sqrt")
    problems.push_back("hybrid.rates is '" + rates + "'; it can be own, linear or sqrt");
  if (rates == "sqrt" && !is_built_in_optimizer(recipe.optimizer.name)) {
    problems.push_back(
        "hybrid.rates is sqrt, which changes the weight decay; with the optimizer '" +
        recipe.optimizer.name + "' of a plugin it can be own or linear");
  }
  if (options.integer("base_batch") < 1) {
    problems.push_back("hybrid.base_batch is " + std::to_string(options.integer("base_batch")) +
                       "; it has to be at least 1");
  }
  if (recipe.training.accumulate > 1) {
    problems.push_back("training.accumulate is " + std::to_string(recipe.training.accumulate) +
                       "; hybrid cuts a batch into passes by hybrid.scheme instead: 1");
  }
  check_placement(recipe, {"replicated", "partitioned"}, problems);
}

HybridOptions hybrid_options(const Recipe& recipe) {
  const Options& keys = recipe.strategy_options;
  HybridOptions options;
  const std::string& scheme = keys.text("scheme");
  if (scheme == "b") options.senders = 1;
  if (scheme == "c") options.senders = static_cast<int>(recipe.grid.partitions);
  if (scheme == "bc") options.senders = static_cast<int>(keys.integer("senders"));
  options.variable_batch = keys.flag("variable_batch");
  options.synchronized = keys.text("batch_norm") == "synchronized";
  options.bucket = parse_bytes(keys.text("bucket"));
  options.first_bucket = parse_bytes(keys.text("first_bucket"));
  options.allreduce = keys.text("allreduce");
  options.reproducible = keys.flag("reproducible");
  options.rates = rate_rule(keys.text("rates"));
  options.base_batch = static_cast<double>(keys.integer("base_batch"));
  options.bfloat16_wire = keys.text("wire") == "bfloat16";
  return options;
}

}  // namespace convoy::train
