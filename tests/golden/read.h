// Reads a file of reference values from this folder.
#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace convoy::golden {

inline nlohmann::json read(const std::string& file) {
  const char* source = std::getenv("CONVOY_SOURCE_DIR");
  if (source == nullptr)
    throw std::runtime_error("CONVOY_SOURCE_DIR is not set; run through ctest");
  const std::string path = std::string(source) + "/tests/golden/" + file;
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("can't read " + path);
  return nlohmann::json::parse(stream);
}

}  // namespace convoy::golden
