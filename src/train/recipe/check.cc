// What makes no sense in a recipe whose types are right.
#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/transform.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"
#include "train/compute/device.h"
#include "train/recipe/checker.h"
#include "train/recipe/fields.h"
#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

using Checker = RecipeChecker;

// What one of Convoy's rules, and whoever makes it, say of these values; `whose` stands before it.
// Nothing: there is no rule to go on with.
std::optional<optim::Rule> checked_rule(const OptimizerRecipe& values, const std::string& whose,
                                        Checker& c) {
  std::optional<optim::Rule> rule;
  try {
    rule = optimizer_rule(values);
  } catch (const UsageError& error) {
    c.expect(false, whose + error.what());
    return std::nullopt;
  } catch (const std::exception& error) {
    c.expect(false, (whose.empty() ? "optimizer: " : whose) + "'" + values.name +
                        "' can't be made: " + error.what());
    return std::nullopt;
  }
  try {
    optim::validate(*rule);
  } catch (const UsageError& error) {
    c.expect(false, (whose.empty() ? "optimizer: " : whose) + error.what());
    return std::nullopt;
  }
  return rule;
}

bool have_same_state(const optim::Rule& one, const optim::Rule& other) {
  const optim::Slots a = optim::slots(one), b = optim::slots(other);
  return one.index() == other.index() && std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// All groups are updated by one optimizer.
void check_rules(const OptimizerRecipe& o, Checker& c) {
  const std::optional<optim::Rule> rule = checked_rule(o, "", c);
  if (!rule) return;
  for (std::size_t i = 0; i < o.groups.size(); ++i) {
    if (!std::isfinite(o.groups[i].weight_decay)) continue;
    const std::string whose = "optimizer.groups[" + std::to_string(i) + "]: ";
    const auto own = checked_rule(values_of_group(o, o.groups[i]), whose, c);
    c.expect(!own || have_same_state(*rule, *own),
             whose + "'" + o.name + "' gives it another rule, or other state, than [optimizer]");
  }
}

template <class Kind, class Chosen>
bool is_built_in(const Kinds<Kind>& built_in, const Chosen& chosen) {
  return !chosen.kind || chosen.kind == built_in.find(chosen.name);
}

// `trains` as of check_values. What a plugin says of its values is asked only then: by now it may
// say something else than when they were trained with.
void check_optimizer(const OptimizerRecipe& o, const Vocabulary& vocabulary, bool trains,
                     Checker& c) {
  if (o.kind) c.no_others("optimizer", vocabulary.optimizers, *o.kind, {"", ""});
  bool finite = c.finite("optimizer.lr", o.lr);
  finite = c.finite("optimizer.weight_decay", o.weight_decay) && finite;
  const bool asks = trains || is_built_in(built_in_optimizers(), o);
  if (asks) {
    finite = c.finite_values("optimizer", o.options) && finite;
    c.values("optimizer", o.options);
  }
  if (!has_rule(o)) {
    c.expect(!(o.lr < 0), "optimizer.lr can't be negative");
    c.expect(!(o.weight_decay < 0), "optimizer.weight_decay can't be negative");
  } else if (finite && asks) {
    check_rules(o, c);
  }
  for (std::size_t i = 0; i < o.groups.size(); ++i) {
    const ParameterGroupRecipe& group = o.groups[i];
    const std::string name = "optimizer.groups[" + std::to_string(i) + "]";
    c.expect(!group.parameters.empty() || group.max_dims > 0,
             name + " fits every parameter; give it parameters or max_dims");
    c.finite(name + ".lr_scale", group.lr_scale);
    c.finite(name + ".weight_decay", group.weight_decay);
    c.expect(!(group.lr_scale < 0), name + ".lr_scale is negative");
    c.expect(!(group.weight_decay < 0) || group.weight_decay == -1,
             name + ".weight_decay is negative; -1 means the optimizer's");
    c.expect(group.max_dims >= 0, name + ".max_dims is negative; 0 means any");
    std::vector<std::string> owners = Checker::owners_of(vocabulary.optimizers, kTrustMinDims);
    std::erase(owners, o.name);  // which may have a key of this name that means something else
    c.expect(group.trust_min_dims == -1 || !o.kind || has_trust_min_dims(o.options),
             name + ".trust_min_dims is for " + all_of_words(owners) + ", not " + o.name);
    c.expect(group.trust_min_dims >= -1,
             name + ".trust_min_dims is negative; -1 means the optimizer's");
  }
}

void check_schedule(const ScheduleRecipe& s, const Vocabulary& vocabulary, bool trains,
                    Checker& c) {
  if (s.kind) {
    c.no_others("schedule", vocabulary.schedules, *s.kind, {"the schedule ", "the schedules "});
  }
  if (trains || is_built_in(built_in_schedules(), s)) {
    c.finite_values("schedule", s.options);
    c.values("schedule", s.options);
  }
  for (const auto& [key, value] :
       {std::pair{"schedule.warmup", s.warmup}, std::pair{"schedule.warmup_from", s.warmup_from}}) {
    if (c.finite(key, value)) c.at_least(key, value, 0);
  }
  c.only_for("schedule.warmup_from", s.warmup > 0, "schedule.warmup, which is 0");
}

// What would spoil a training, but says nothing against using what came of it.
void check_aims(const Recipe& r, const Given& given, Checker& c) {
  const ScheduleRecipe& s = r.schedule;
  const double length = schedule_length(r);
  if (length > 0 && std::isfinite(s.warmup)) {
    c.expect(s.warmup <= length,
             "schedule.warmup is " + Checker::number(s.warmup) + " " + s.unit +
                 ", longer than the training of " + Checker::number(length) +
                 (s.unit == "epochs" ? "; schedule.unit = \"steps\" counts updates" : ""));
  }
  c.expect(r.training.target.metric.empty() || given.present("training.target.level"),
           "training.target.metric needs training.target.level: what it has to reach");
}

void check_crop(const std::string& table, const CropRecipe& crop, std::int64_t size, Checker& c) {
  const auto key = [&table](const char* name) { return "data." + table + "." + name; };
  const bool random = crop.crop == "random_resized";
  c.only_for(key("area").c_str(), random, "crop = \"random_resized\"");
  c.only_for(key("ratio").c_str(), random, "crop = \"random_resized\"");
  c.only_for(key("padding").c_str(), crop.crop == "random_padded", "crop = \"random_padded\"");
  const bool window = crop.crop == "center" || crop.crop == "fixed" || crop.crop == "ten";
  c.only_for(key("resize").c_str(), window, "crop = \"center\", \"fixed\" or \"ten\"");
  c.only_for(key("left").c_str(), crop.crop == "fixed", "crop = \"fixed\"");
  c.only_for(key("top").c_str(), crop.crop == "fixed", "crop = \"fixed\"");
  c.expect(!random || size > 0, key("crop") + " is random_resized; that needs data.size");
  c.expect((crop.crop != "fixed" && crop.crop != "ten") || size > 0,
           key("crop") + " is " + crop.crop + "; that needs data.size");
  c.expect(crop.crop != "ten" || !crop.flip,
           key("flip") + ": ten crops have both sides already; leave flip out");
  c.expect(!window || crop.resize == 0 || crop.resize >= size,
           key("resize") + " is " + std::to_string(crop.resize) + ", smaller than data.size " +
               std::to_string(size));
  c.expect(crop.area.size() == 2 && crop.area[0] > 0 && crop.area[0] <= crop.area[1] &&
               crop.area[1] <= 1,
           key("area") + " has to be two numbers, 0 < least <= largest <= 1");
  c.expect(crop.ratio.size() == 2 && crop.ratio[0] > 0 && crop.ratio[0] <= crop.ratio[1] &&
               std::isfinite(crop.ratio[1]),
           key("ratio") + " has to be two finite numbers, 0 < least <= largest");
  c.side(key("padding"), crop.padding);
  c.side(key("resize"), crop.resize);
  c.side(key("left"), crop.left);
  c.side(key("top"), crop.top);
  const std::pair<const char*, double> factors[] = {{"brightness", crop.brightness},
                                                    {"contrast", crop.contrast},
                                                    {"saturation", crop.saturation}};
  for (const auto& [name, value] : factors) {
    c.expect(value >= 0 && value <= 1, key(name) + " has to be 0 to 1");
  }
  c.expect(crop.lighting >= 0 && crop.lighting <= 10, key("lighting") + " has to be 0 to 10");
}

void check_evaluation(const Recipe& r, Checker& c) {
  const EvaluationRecipe& e = r.evaluation;
  c.at_least("evaluation.every_epochs", static_cast<double>(e.every_epochs), 0);
  c.at_least("evaluation.every_steps", static_cast<double>(e.every_steps), 0);
  c.within("evaluation.batch", e.batch, 0, std::numeric_limits<std::int32_t>::max());
  c.expect(e.fraction > 0 && e.fraction <= 1,
           "evaluation.fraction has to be above 0, and at most 1");
  c.expect(e.training_fraction >= 0 && e.training_fraction <= 1,
           "evaluation.training_fraction has to be 0 to 1");
  c.only_for("evaluation.training_fraction", r.data.has_validation && e.from != "training",
             "evaluations on data.validation");
  for (const char* key :
       {"evaluation.every_epochs", "evaluation.every_steps", "evaluation.fraction"}) {
    c.only_for(key, r.evaluates(),
               "recipes with [data.validation], or evaluation.from = \"training\"");
  }
  const TargetRecipe& target = r.training.target;
  c.only_for("training.target.level", !target.metric.empty(),
             "training.target.metric, which is empty");
  c.finite("training.target.level", target.level);
  if (target.metric.empty()) return;
  c.expect(r.evaluates(),
           "training.target needs [data.validation], or evaluation.from = "
           "\"training\"");
  c.expect(e.every_epochs > 0 || e.every_steps > 0,
           "training.target is looked for in evaluations; give evaluation.every_steps or "
           "evaluation.every_epochs");
}

// 0 for what is no size.
std::uint64_t bytes_of(const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const UsageError&) {
    return 0;
  }
}

void check_data(const DataRecipe& d, Checker& c) {
  c.expect(d.channels == 0 || d.channels == 1 || d.channels == 3,
           "data.channels is " + std::to_string(d.channels) +
               "; it can be 1, 3, or 0 (those of the first record)");
  c.side("data.size", d.size);
  c.expect(d.threads >= 0 && d.threads <= 1024, "data.threads has to be 1 to 1024, or 0");
  c.expect(d.ahead >= 1 && d.ahead <= 1024, "data.ahead has to be 1 to 1024");
  c.expect(!d.mean.empty() && !d.deviation.empty(), "data.mean and data.deviation can't be empty");
  for (const auto& [key, values] :
       {std::pair{"data.mean", &d.mean}, std::pair{"data.deviation", &d.deviation}}) {
    c.expect(d.channels == 0 || values->size() <= 1 ||
                 static_cast<std::int64_t>(values->size()) == d.channels,
             std::string(key) + " has " + std::to_string(values->size()) +
                 " values; data.channels is " + std::to_string(d.channels));
    for (const double value : *values) c.finite_float(key, value);
  }
  c.expect(d.mean.size() == d.deviation.size() || d.mean.size() == 1 || d.deviation.size() == 1,
           "data.mean has " + std::to_string(d.mean.size()) + " values, data.deviation " +
               std::to_string(d.deviation.size()));
  // Pixels are multiplied by what it is the reverse of.
  constexpr double kLeastDeviation = 1e-30;
  for (const double deviation : d.deviation) {
    c.expect(!(deviation <= 0), "data.deviation has to be above 0");
    c.expect(!(deviation > 0 && deviation < kLeastDeviation),
             "data.deviation is " + shortest(deviation) + "; it has to be at least 1e-30");
  }
  c.only_for("data.groups", d.store == "memory", "data.store = \"memory\"");
  for (const char* key : {"data.store_memory", "data.shuffle_every_epochs",
                          "data.shuffle_every_steps", "data.random_batches"}) {
    c.only_for(key, d.store != "files", "data.store = \"memory\", \"host\" or \"auto\"");
  }
  c.expect(d.groups >= 0 && d.groups <= 1'000'000, "data.groups has to be at least 1, or 0");
  if (!d.store_memory.empty()) {
    c.expect(bytes_of(d.store_memory) > 0,
             "data.store_memory is '" + d.store_memory + "'; it has to be a size, as \"200GiB\"");
  }
  c.expect(d.shuffle_every_epochs >= 0, "data.shuffle_every_epochs is negative");
  c.expect(d.shuffle_every_steps >= 0, "data.shuffle_every_steps is negative");
  check_crop("augment", d.augment, d.size, c);
  c.expect(d.augment.crop != "ten",
           "data.augment.crop is ten; ten crops of an image are for data.evaluate");
  check_crop("evaluate", d.evaluate, d.size, c);
}

}  // namespace

void check_values(const Recipe& r, const Given& given, const Vocabulary& vocabulary, bool trains,
                  std::vector<std::string>& problems) {
  Checker c(given, problems);
  constexpr double kMost = 1e15;
  constexpr std::int64_t kMostSamples = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostEpochs = 1'000'000'000;
  constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
  constexpr std::int64_t kMostRanks = 1'000'000;
  const TrainingRecipe& t = r.training;
  c.expect(!r.name.empty() && r.name.find('/') == std::string::npos,
           "name is '" + r.name + "'; it can't be empty or hold a /");
  c.expect(r.name != "." && r.name != "..",
           "name is '" + r.name + "', which is no folder of its own below runs/");
  c.expect(r.threads >= 0 && r.threads <= 4096, "threads has to be 0 to 4096");
  c.expect(parse_device(r.device).has_value(),
           "device is '" + r.device + "'; it can be cpu, cuda, or cuda:N with the number of a GPU");
  c.within("model.classes", r.model.classes, 0, std::numeric_limits<std::int32_t>::max());
  c.only_for("model.partial", !r.model.weights.empty(), "model.weights, which is empty");
  check_data(r.data, c);
  c.within("grid.replicas", r.grid.replicas, 0, kMostRanks);
  c.within("grid.partitions", r.grid.partitions, 1, kMostRanks);
  for (std::size_t i = 0; i < r.placement.layers.size(); ++i) {
    const std::string name = "placement.layers[" + std::to_string(i) + "]";
    c.expect(!r.placement.layers[i].how.empty(), name + ".how is missing");
    for (const double part : r.placement.layers[i].parts) {
      if (c.finite(name + ".parts", part))
        c.expect(part >= 0 && part < kMost, name + ".parts can't be negative, or 1e15 and more");
    }
  }
  check_optimizer(r.optimizer, vocabulary, trains, c);
  check_schedule(r.schedule, vocabulary, trains, c);
  c.values("model.options", r.model.options);
  c.values("data.train", r.data.train);
  c.values("data.validation", r.data.validation);
  c.values("task.options", r.task.options);
  c.values(r.strategy, r.strategy_options);
  for (const auto& [table, options] : r.candidates) c.values(table, options);
  if (trains) check_aims(r, given, c);
  if (t.batch == 0)
    c.expect(false, "training.batch is missing: the images per update");
  else
    c.within("training.batch", t.batch, 1, kMostSamples);
  c.within("training.accumulate", t.accumulate, 1, kMostSamples);
  c.expect(t.accumulate <= std::max<std::int64_t>(t.batch, 1),
           "training.accumulate is more than training.batch");
  c.expect(t.epochs > 0 || t.steps > 0 || t.epochs < 0 || t.steps < 0,
           "how long to train? Give training.epochs or training.steps");
  c.expect(!(t.epochs > 0 && t.steps > 0),
           "training.epochs and training.steps contradict each other; give one of them");
  c.within("training.epochs", t.epochs, 0, kMostEpochs);
  c.within("training.steps", t.steps, 0, kMostSteps);
  if (c.finite("training.clip_norm", t.clip_norm)) c.at_least("training.clip_norm", t.clip_norm, 0);
  c.at_least("training.noise_every", static_cast<double>(t.noise_every), 0);
  c.only_for("training.noise_every", r.strategy == "sync", "the strategy sync, not " + r.strategy);
  c.expect(
      t.noise_every <= 0 || r.strategy != "sync" || t.accumulate > 1,
      "training.noise_every compares the gradient of a micro-batch with that of the batch; set "
      "training.accumulate to 2 or more");
  check_evaluation(r, c);
  c.at_least("checkpoint.every_steps", static_cast<double>(r.checkpoint.every_steps), 0);
  c.expect(r.checkpoint.every_minutes >= 0 && r.checkpoint.every_minutes < kMost,
           "checkpoint.every_minutes has to be a number from 0 on, below 1e15");
  c.at_least("checkpoint.every_epochs", static_cast<double>(r.checkpoint.every_epochs), 0);
  c.within("checkpoint.keep", r.checkpoint.keep, 1, 999'999);
  const std::string& memory = r.checkpoint.memory;
  c.expect(memory.empty() || bytes_of(memory) > 0,
           "checkpoint.memory is '" + memory + "'; it has to be a size, as \"4GiB\"");
  c.at_least("output.every_steps", static_cast<double>(r.output.every_steps), 1);
  c.at_least("output.rank_times_every_steps", static_cast<double>(r.output.rank_times_every_steps),
             0);
}

}  // namespace convoy::train
