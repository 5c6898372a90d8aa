// What strategies note beside tensors, where each rank may have some of it.
#pragma once

#include <string>
#include <vector>

#include "convoy/train/state.h"

namespace convoy::train {

// Aliases, numbers (exactly) and lists of a state, for other ranks.
std::string words_of(const State& state);
// Adds those of several ranks. Throws UsageError where two of them have different ones under one
// name.
void add_words(const std::vector<std::string>& words, Manifest& manifest);

}  // namespace convoy::train
