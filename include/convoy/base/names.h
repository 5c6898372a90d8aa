// Help for mistyped names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy {

// Gives the known name nearest to `name` by the number of edits, the first of equals, or nothing if
// none is near: more than 2 edits and more than a third of the name away.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace convoy
