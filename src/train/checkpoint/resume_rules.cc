#include "train/checkpoint/resume_rules.h"

#include <algorithm>
#include <iterator>

#include "train/recipe/fields.h"

namespace convoy::train {
namespace {

constexpr auto kFree = ResumeRule::free;
constexpr auto kFits = ResumeRule::fits;
constexpr auto kFixed = ResumeRule::fixed;

constexpr ResumeKey kKeys[] = {
    {"name", kFree, ""},
    {"strategy", kFixed, "what is saved is that strategy's"},
    {"plugins", kFree, ""},
    {"seed", kFixed, "the order of samples depends on it"},
    {"threads", kFree, ""},
    {"precision", kFree, ""},
    {"device", kFree, ""},
    {"tf32", kFree, ""},
    {"model.name", kFixed, "the weights are of that model"},
    {"model.classes", kFits, ""},
    {"model.channels_last", kFree, ""},
    {"model.weights", kFree, ""},
    {"model.partial", kFree, ""},
    {"model.options.*", kFits, ""},
    {"data.reader", kFits, ""},
    {"data.size", kFits, ""},
    {"data.channels", kFits, ""},
    {"data.mean", kFree, ""},
    {"data.deviation", kFree, ""},
    {"data.on_bad", kFree, ""},
    {"data.drop_last", kFree, ""},
    {"data.threads", kFree, ""},
    {"data.ahead", kFree, ""},
    {"data.pixel", kFree, ""},
    {"data.store", kFits, ""},
    {"data.store_memory", kFits, ""},
    {"data.groups", kFree, ""},
    {"data.shuffle_every_epochs", kFree, ""},
    {"data.shuffle_every_steps", kFree, ""},
    {"data.random_batches", kFree, ""},
    {"data.train.*", kFits, ""},
    {"data.validation.*", kFits, ""},
    {"data.augment.*", kFree, ""},
    {"data.evaluate.*", kFree, ""},
    {"task.name", kFits, ""},
    {"task.options.classes", kFits, ""},
    {"task.options.class_names", kFits, ""},
    {"task.options.*", kFree, ""},
    {"optimizer.name", kFixed, "what it has gathered is of that rule"},
    {"optimizer.lr", kFree, ""},
    {"optimizer.weight_decay", kFree, ""},
    {"optimizer.groups.*", kFree, ""},
    {"schedule.*", kFree, ""},
    {"training.batch", kFree, ""},
    {"training.accumulate", kFree, ""},
    {"training.epochs", kFree, ""},
    {"training.steps", kFree, ""},
    {"training.clip_norm", kFree, ""},
    {"training.noise_every", kFree, ""},
    {"training.target.*", kFree, ""},
    {"evaluation.*", kFree, ""},
    {"checkpoint.best", kFree, ""},
    {"checkpoint.*", kFree, ""},
    {"output.folder", kFits, ""},
    {"output.every_steps", kFree, ""},
    {"output.rank_times_every_steps", kFree, ""},
    {"output.tensorboard", kFree, ""},
    {"output.log_samples", kFree, ""},
    {"grid.*", kFree, ""},
    {"placement.*", kFree, ""},
    {"sync.*", kFree, ""},
    {"hybrid.*", kFree, ""},
    {"partitioned.*", kFree, ""},
    {"downpour.*", kFree, ""},
    {"sandblaster.*", kFree, ""},
};

bool fits(std::string_view pattern, std::string_view key) {
  if (!pattern.ends_with('*')) return pattern == key;
  pattern.remove_suffix(1);
  if (key.starts_with(pattern)) return true;
  // Tables in a list are numbered.
  pattern.remove_suffix(1);
  return key.starts_with(pattern) && key.substr(pattern.size()).starts_with('[');
}

}  // namespace

std::span<const ResumeKey> resume_keys() { return kKeys; }

namespace {

bool saves_optimizers_state(std::string_view strategy) {
  return strategy == "sync" || strategy == "hybrid" || strategy == "partitioned" ||
         strategy == "downpour";
}

}  // namespace

bool save_alike(std::string_view a, std::string_view b) {
  return saves_optimizers_state(a) && saves_optimizers_state(b);
}

bool takes_weights_alone(std::string_view now, std::string_view before) {
  return before == "sandblaster" && saves_optimizers_state(now);
}

bool is_of_the_objective(std::string_view key) {
  constexpr std::string_view kOfTheObjective[] = {
      "sandblaster.l2", "data.mean",       "data.deviation", "data.pixel",
      "data.augment.*", "model.options.*", "task.name",      "task.options.label_smoothing"};
  return std::any_of(std::begin(kOfTheObjective), std::end(kOfTheObjective),
                     [key](std::string_view pattern) { return fits(pattern, key); });
}

const ResumeKey* find_resume_key(std::string_view key) {
  for (const ResumeKey& row : kKeys) {
    if (fits(row.key, key)) return &row;
  }
  return nullptr;
}

std::optional<KeyRule> resume_rule_of(const Recipe& recipe, const std::string& key) {
  const Option* const option = find_option(recipe, key);
  if (option != nullptr && option->resume) return KeyRule{*option->resume, option->why};
  const ResumeKey* const row = find_resume_key(key);
  if (row == nullptr) return std::nullopt;
  return KeyRule{row->rule, std::string(row->why)};
}

}  // namespace convoy::train
