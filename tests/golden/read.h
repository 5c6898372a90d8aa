// Reads a file of reference values from this folder.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace convoy::golden {

/// The file's values, which stay where they are until the program ends: a loop over a part of them,
/// `for (const auto& one : read(file)["cases"])`, holds none of a temporary. For one thread.
inline const nlohmann::json& read(const std::string& file) {
  static std::map<std::string, nlohmann::json> all;
  const auto known = all.find(file);
  if (known != all.end()) return known->second;
  const char* source = std::getenv("CONVOY_SOURCE_DIR");
  if (source == nullptr)
    throw std::runtime_error("CONVOY_SOURCE_DIR is not set; run through ctest");
  const std::string path = std::string(source) + "/tests/golden/" + file;
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("can't read " + path);
  return all[file] = nlohmann::json::parse(stream);
}

}  // namespace convoy::golden
