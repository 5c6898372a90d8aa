// What makes no sense in a recipe whose types are right.
#include <cmath>
#include <limits>
#include <utility>

#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/transform.h"
#include "convoy/train/optimizer_rule.h"
#include "train/compute/device.h"
#include "train/recipe/fields.h"

namespace convoy::train {
namespace {

class Checker {
 public:
  Checker(const Given& given, std::vector<std::string>& problems)
      : given_(given), problems_(problems) {}

  void expect(bool good, const std::string& problem) {
    if (!good) problems_.push_back(problem);
  }
  void at_least(const char* key, double value, double least) {
    expect(value >= least,
           std::string(key) + " is " + number(value) + "; it has to be at least " + number(least));
  }
  void within(const std::string& key, std::int64_t value, std::int64_t least, std::int64_t most) {
    expect(value >= least && value <= most, key + " is " + std::to_string(value) +
                                                "; it has to be " + std::to_string(least) + " to " +
                                                std::to_string(most));
  }
  // TOML has words for infinity and for what is no number.
  bool finite(const std::string& key, double value) {
    expect(std::isfinite(value), key + " is " + number(value) + "; it has to be a finite number");
    return std::isfinite(value);
  }
  // What becomes a number of 32 bits.
  bool finite_float(const std::string& key, double value) {
    if (!finite(key, value)) return false;
    const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
    expect(fits, key + " is " + shortest(value) + ", more than a float can hold");
    return fits;
  }
  // Of a picture, in pixels.
  void side(const std::string& key, std::int64_t value) {
    expect(value >= 0 && value <= data::kMaxSide, key + " is " + std::to_string(value) +
                                                      "; it has to be 0 to " +
                                                      std::to_string(data::kMaxSide));
  }
  // Keys that only some choices have a use for.
  void only_for(const char* key, bool used, const std::string& whom) {
    expect(used || !given_(key), std::string(key) + " is for " + whom);
  }
  static std::string number(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (!text.empty() && text.back() == '.') text.pop_back();
    return text;
  }

 private:
  const Given& given_;
  std::vector<std::string>& problems_;
};

void check_optimizer(const OptimizerRecipe& o, Checker& c) {
  const bool built_in = is_built_in_optimizer(o.name);
  const bool adam = o.name == "adam" || o.name == "adamw";
  const auto only_for = [&](std::initializer_list<const char*> keys, bool used,
                            const std::string& whom) {
    for (const char* key : keys) {
      if (o.options.has(key)) continue;  // a plugin's own
      c.only_for((std::string("optimizer.") + key).c_str(), used, whom + ", not " + o.name);
    }
  };
  const bool velocity = o.name == "sgd_velocity";
  const bool lars = o.name == "lars", lamb = o.name == "lamb";
  only_for({"momentum"}, o.name == "sgd" || velocity || lars, "sgd, sgd_velocity and lars");
  only_for({"dampening", "nesterov"}, o.name == "sgd", "sgd");
  only_for({"beta1", "beta2"}, adam || lamb, "adam, adamw and lamb");
  only_for({"amsgrad"}, adam, "adam and adamw");
  only_for({"lr_decay", "initial_accumulator"}, o.name == "adagrad", "adagrad");
  only_for({"eps"}, built_in && o.name != "sgd" && !velocity,
           "adam, adamw, adagrad, lars and lamb");
  only_for({"trust_coefficient"}, lars, "lars");
  only_for({"trust_min_dims"}, lars || lamb, "lars and lamb");
  bool finite = true;
  const std::pair<const char*, double> numbers[] = {{"lr", o.lr},
                                                    {"momentum", o.momentum},
                                                    {"dampening", o.dampening},
                                                    {"beta1", o.beta1},
                                                    {"beta2", o.beta2},
                                                    {"weight_decay", o.weight_decay},
                                                    {"eps", o.eps},
                                                    {"lr_decay", o.lr_decay},
                                                    {"initial_accumulator", o.initial_accumulator},
                                                    {"trust_coefficient", o.trust_coefficient}};
  for (const auto& [key, value] : numbers)
    finite = c.finite(std::string("optimizer.") + key, value) && finite;
  c.expect(o.trust_min_dims >= 0, "optimizer.trust_min_dims is negative; 0 means all parameters");
  c.expect(o.options.has("momentum") || !(o.momentum >= 1),
           "optimizer.momentum has to be below 1: from there on updates grow without end");
  if (built_in && finite) {
    try {
      optim::validate(optimizer_rule(o));
    } catch (const UsageError& error) {
      c.expect(false, std::string("optimizer: ") + error.what());
    }
  } else if (!built_in) {
    c.expect(!(o.lr < 0), "optimizer.lr can't be negative");
    c.expect(!(o.weight_decay < 0), "optimizer.weight_decay can't be negative");
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
    c.expect(group.trust_min_dims == -1 || lars || lamb,
             name + ".trust_min_dims is for lars and lamb, not " + o.name);
    c.expect(group.trust_min_dims >= -1,
             name + ".trust_min_dims is negative; -1 means the optimizer's");
  }
}

// How long training is by the unit of the schedule; 0: that is not known yet.
double length_of(const Recipe& r) {
  return static_cast<double>(r.schedule.unit == "epochs" ? r.training.epochs : r.training.steps);
}

void check_schedule(const Recipe& r, Checker& c) {
  const ScheduleRecipe& s = r.schedule;
  c.only_for("schedule.milestones", s.name == "step", "the schedule step, not " + s.name);
  c.only_for("schedule.gamma", s.name == "step", "the schedule step, not " + s.name);
  const bool polynomial = s.name == "polynomial", one_cycle = s.name == "one_cycle";
  c.only_for("schedule.end", s.name == "cosine" || polynomial,
             "the schedules cosine and polynomial, not " + s.name);
  c.only_for("schedule.power", polynomial, "the schedule polynomial, not " + s.name);
  for (const char* key : {"schedule.pct_start", "schedule.div_factor", "schedule.final_div_factor"})
    c.only_for(key, one_cycle, "the schedule one_cycle, not " + s.name);
  c.only_for("schedule.warmup", !one_cycle || s.warmup == 0,
             "other schedules than one_cycle, whose rate rises by itself (schedule.pct_start)");
  c.expect(s.name != "step" || !s.milestones.empty(),
           "schedule.milestones is empty; the schedule step needs them");
  double before = 0;
  for (const double milestone : s.milestones) {
    c.finite("schedule.milestones", milestone);
    c.expect(milestone > before, "schedule.milestones have to be ascending and above 0");
    before = milestone;
  }
  const double length = length_of(r);
  if (length > 0 && !s.milestones.empty()) {
    c.expect(s.milestones.back() < length, "schedule.milestones: the last one, " +
                                               Checker::number(s.milestones.back()) +
                                               ", lies beyond the end of training");
  }
  const std::pair<const char*, double> numbers[] = {{"schedule.warmup", s.warmup},
                                                    {"schedule.warmup_from", s.warmup_from},
                                                    {"schedule.end", s.end}};
  for (const auto& [key, value] : numbers) {
    if (c.finite(key, value)) c.at_least(key, value, 0);
  }
  if (c.finite("schedule.power", s.power))
    c.expect(s.power > 0, "schedule.power has to be above 0");
  c.expect(s.pct_start >= 0 && s.pct_start <= 1, "schedule.pct_start has to be 0 to 1");
  for (const auto& [key, value] : {std::pair{"schedule.div_factor", s.div_factor},
                                   std::pair{"schedule.final_div_factor", s.final_div_factor}}) {
    if (c.finite(key, value)) c.at_least(key, value, 1);
  }
  c.only_for("schedule.warmup_from", s.warmup > 0, "schedule.warmup, which is 0");
  if (c.finite("schedule.gamma", s.gamma))
    c.expect(s.gamma > 0, "schedule.gamma has to be above 0");
}

// What would spoil a training, but says nothing against using what came of it.
void check_aims(const Recipe& r, const Given& given, Checker& c) {
  const ScheduleRecipe& s = r.schedule;
  const double length = length_of(r);
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

void check_values(const Recipe& r, const Given& given, bool trains,
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
  check_optimizer(r.optimizer, c);
  check_schedule(r, c);
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
