// The optimizers and schedules that Convoy brings, and what their keys have in common. Torch-free.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "convoy/train/recipe.h"

namespace convoy::train {

// One file for each: src/train/optimizer/sgd.cc and so on.
void add_sgd(Kinds<OptimizerKind>& kinds);
void add_sgd_velocity(Kinds<OptimizerKind>& kinds);
void add_adam(Kinds<OptimizerKind>& kinds);  // and adamw
void add_adagrad(Kinds<OptimizerKind>& kinds);
void add_lars(Kinds<OptimizerKind>& kinds);
void add_lamb(Kinds<OptimizerKind>& kinds);

// src/train/schedule/constant.cc and so on.
void add_constant(Kinds<ScheduleKind>& kinds);
void add_step(Kinds<ScheduleKind>& kinds);
void add_cosine(Kinds<ScheduleKind>& kinds);
void add_polynomial(Kinds<ScheduleKind>& kinds);
void add_one_cycle(Kinds<ScheduleKind>& kinds);

// -- Keys that several of them have

Option momentum_key();
Option beta1_key();
Option beta2_key();
Option eps_key(const std::string& usual);  // what 0 stands for
Option amsgrad_key();
// Key and default of the dimensions below which a layer-wise rule does without its trust ratio.
inline constexpr const char* kTrustMinDims = "trust_min_dims";
inline constexpr std::int64_t kUsualTrustMinDims = 2;
Option trust_min_dims_key();
// A plugin may have a key of this name that means something else.
inline bool has_trust_min_dims(const Options& options) {
  return options.has(kTrustMinDims) &&
         std::holds_alternative<std::int64_t>(options.value(kTrustMinDims));
}
Option end_key();  // of schedules: the last rate

// -- Checks of single values

// Of a number: `wrong` says what it has to be, or nothing.
inline Option::Check number_check(std::string (*wrong)(double)) {
  return [wrong](const Value& value) { return wrong(std::get<double>(value)); };
}

// As messages have numbers: at most six digits behind the point.
std::string plain_number(double value);

// "a, b and c".
std::string all_of_words(const std::vector<std::string>& words);

// -- Recipes

// How long the training is by the unit of the schedule; 0: that is not known yet.
inline double schedule_length(const Recipe& recipe) {
  const bool epochs = recipe.schedule.unit == "epochs";
  return static_cast<double>(epochs ? recipe.training.epochs : recipe.training.steps);
}

// The keys of `specification`, with the values that `given` has. Throws std::logic_error where that
// has others: `whose` stands in the message.
Options completed(const std::vector<Option>& specification, const Options& given,
                  const std::string& whose);

// Those of `given` that have other values than their defaults.
Options without_defaults(const Options& given);

// What the name means. A program may have given a recipe that was read another name: what the
// former one meant says nothing of it then. Null: one that was not read, and is none of `built_in`.
template <class Kind, class Chosen>
std::shared_ptr<const Kind> meaning_of(const Kinds<Kind>& built_in, const Chosen& chosen) {
  if (chosen.kind != nullptr && chosen.kind->name == chosen.name) return chosen.kind;
  std::shared_ptr<const Kind> kind = built_in.find(chosen.name);
  if (kind == nullptr && chosen.kind != nullptr) {
    throw std::logic_error(std::string("the ") + Kind::kSort + " was read as '" +
                           chosen.kind->name + "' and renamed to '" + chosen.name +
                           "', which is none that Convoy brings: set its kind as well");
  }
  return kind;
}

// What `chosen` says that it is, with all of its keys. One that was not read is one of `built_in`,
// or stays as it is. Of one that was renamed, keys of the former name that have their defaults are
// left out, as where a recipe is read.
template <class Kind, class Chosen>
Chosen completed(const Kinds<Kind>& built_in, Chosen chosen) {
  const std::shared_ptr<const Kind> kind = meaning_of(built_in, chosen);
  if (kind == nullptr) return chosen;
  if (chosen.kind != nullptr && chosen.kind != kind)
    chosen.options = without_defaults(chosen.options);
  chosen.kind = kind;
  chosen.options = completed(kind->options, chosen.options,
                             std::string("the ") + Kind::kSort + " '" + chosen.name + "'");
  return chosen;
}

}  // namespace convoy::train
