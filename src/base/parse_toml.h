// TOML files of users. For units that have the TOML library.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>

#include "convoy/base/error.h"

namespace convoy {

// What messages call a file: its name without folders.
inline std::string file_in_messages(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Throws UsageError with `file` and the line for what is no TOML.
inline toml::table parse_toml(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const std::string what(error.description());
    // What a text without quotation marks looks like.
    const bool no_value = what.find("could not determine value type") != std::string::npos;
    throw UsageError(file + ":" + std::to_string(error.source().begin.line) + ": " + what +
                     (no_value ? "; a text stands in quotation marks" : ""));
  }
}

}  // namespace convoy
