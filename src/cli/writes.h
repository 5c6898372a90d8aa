// For CLI::Option::check: what an option names is written to, and keeps the rule of
// base/own_files.h. Each option that names something to write has one of these.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/own_files.h"

namespace convoy::cli {

// By this name of its validator a test knows such an option.
inline constexpr const char* kWrites = "writes";

// '-', standard output, may always be written to.
inline CLI::Validator writes_file(const OwnFile& kind) {
  const auto problem = [&kind](const std::string& path) -> std::string {
    return path.empty() || path == "-" ? "" : why_not_file(path, kind).value_or("");
  };
  return CLI::Validator(problem, "", kWrites);
}

inline CLI::Validator writes_folder(const OwnFolder& kind) {
  const auto problem = [&kind](const std::string& path) -> std::string {
    return path.empty() ? "" : why_not_folder(path, kind).value_or("");
  };
  return CLI::Validator(problem, "", kWrites);
}

}  // namespace convoy::cli
