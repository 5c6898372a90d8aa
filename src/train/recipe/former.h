// Recipes as former versions wrote them into checkpoints.
#pragma once

#include <string>

namespace convoy::train {

// The same recipe in today's keys: a table [loss] has become [task]. Text that is no TOML comes
// back as it is.
std::string of_today(const std::string& recipe);

}  // namespace convoy::train
