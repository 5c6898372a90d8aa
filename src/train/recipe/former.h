// Recipes as former versions wrote them into checkpoints.
#pragma once

#include <string>

namespace convoy::train {

// Gives the recipe in today's keys: a table [loss] has become [task], a number training.target a
// table, and a sandblaster.history of 993 to 1000, which was taken once, the most that is taken
// now. Text that is no TOML comes back as it is.
std::string of_today(const std::string& recipe);

// The figure that the recipe chooses for the best checkpoint: checkpoint.best, or that of
// training.target; empty: the task's usual one.
std::string chosen_figure(const std::string& recipe);

// The figure that the best checkpoint went by in versions that didn't say so in its manifest: what
// the recipe has as checkpoint.best, or what the program's tasks usually go by. Empty: what the
// plugin's task usually goes by, whatever that is.
std::string former_figure(const std::string& recipe);

}  // namespace convoy::train
