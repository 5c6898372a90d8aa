#include "cli/bench/downpour/sandblaster_arm.h"

namespace convoy::cli {
namespace {

constexpr const char* kBatchStrategy = "sandblaster";
// Of processes and servers, which both strategies have.
constexpr const char* kServerKeys[] = {"replicas", "shards", "servers", "backups", "durability",
                                       "lease_s",  "hosts",  "etcd",    "restarts"};

}  // namespace

bool has_sandblaster(const train::Vocabulary& vocabulary) {
  return vocabulary.strategies.contains(kBatchStrategy);
}

train::Recipe sandblaster_recipe(const train::RecipeText& text,
                                 const std::vector<std::string>& overrides,
                                 const train::Vocabulary& vocabulary, const train::Recipe& downpour,
                                 std::int64_t iterations) {
  std::vector<std::string> own = overrides;
  for (const char* other : {"optimizer={}", "schedule={}", "training.clip_norm=0"})
    own.emplace_back(other);
  own.push_back(std::string("strategy=") + kBatchStrategy);
  train::Recipe recipe = train::parse_recipe(text, own, vocabulary);
  train::Options& options = recipe.strategy_options;
  const auto says = [&](const char* key) {
    return train::gives(text, overrides, std::string(kBatchStrategy) + "." + key);
  };
  for (const char* key : kServerKeys) {
    if (options.has(key) && downpour.strategy_options.has(key) && !says(key))
      options.set(key, downpour.strategy_options.value(key));
  }
  if (options.has("l2") && !says("l2")) options.set("l2", downpour.optimizer.weight_decay);
  recipe.training.epochs = 0;
  recipe.training.steps = iterations;
  // Steps are iterations here.
  recipe.evaluation.every_epochs = 0;
  recipe.evaluation.every_steps = 1;
  recipe.evaluation.training_fraction = downpour.evaluation.training_fraction;
  recipe.checkpoint.every_epochs = 0;
  recipe.checkpoint.every_steps = 0;
  recipe.output.every_steps = 1;
  return recipe;
}

}  // namespace convoy::cli
