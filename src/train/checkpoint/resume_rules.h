// Which keys of a recipe may have other values when a run goes on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "convoy/train/recipe.h"

namespace convoy::train {

struct ResumeKey {
  // "optimizer.lr"; a * at the end stands for any rest.
  std::string_view key;
  ResumeRule rule;
  std::string_view why;  // of a fixed one: what depends on it
};

// Every key that all recipes have, once. Keys of optimizers and schedules say it themselves
// (Option::resume), and so may those of plugins; keys of strategies that are not Convoy's own are
// free. docs/training.md has the same table.
std::span<const ResumeKey> resume_keys();

// The row of a key as RecipeChange has it ("optimizer.groups[1].lr_scale"); null: none.
const ResumeKey* find_resume_key(std::string_view key);

// What may become of a key of this recipe: what it says itself, or else its row. Nothing: neither
// says anything, so it may change.
struct KeyRule {
  ResumeRule rule;
  std::string why;
};
std::optional<KeyRule> resume_rule_of(const Recipe& recipe, const std::string& key);

// Whether a run of the one strategy can go on with the other: what they save is a network and what
// its optimizer has gathered, whoever holds which part of it.
bool save_alike(std::string_view a, std::string_view b);
// Whether a run with the strategy `now` may go on from what `before` has saved, though it takes
// only weights and position of it: its optimizer begins anew.
bool takes_weights_alone(std::string_view now, std::string_view before);
// Whether the loss is another function of the weights where this key has another value. A batch
// optimization can't go on then: it compares losses, and gradients, with those that are saved.
bool is_of_the_objective(std::string_view key);

}  // namespace convoy::train
