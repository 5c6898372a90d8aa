// Values as TOML writes them. Needs no TOML library.
#pragma once

#include <string>

namespace convoy {

// The shortest text that reads back as the same number; nan, inf, -inf.
std::string shortest(double value);

// Gives shortest() as a TOML float, which always has a point or an exponent.
std::string toml_number(double value);

// Gives the text in double quotes, with escapes for quotes, backslashes and control characters.
std::string toml_string(const std::string& text);

}  // namespace convoy
