// Names in messages: mistyped ones, and those that others have chosen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy {

// Gives the known name nearest to `name` by the number of edits, the first of equals, or nothing if
// none is near: more than 2 edits and more than a third of the name away.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// Gives a name as a line of a terminal or a log can hold it: control characters, which would move
// the cursor, change colors or begin another line, as "\x1b" and "\x0a".
std::string printable(std::string_view name);

// Does so with a text of several lines, whose ends of lines and tabs stay: messages quote names
// that others have given.
std::string printable_lines(std::string_view text);

}  // namespace convoy
