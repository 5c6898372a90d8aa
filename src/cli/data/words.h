// Numbers of things in sentences.
#pragma once

#include <cstdint>
#include <string>

namespace convoy::cli {

// For printf's %llu, whatever the 64-bit type of this machine is.
inline unsigned long long number(std::uint64_t value) { return value; }

// "1 image", "2 images", "1 class", "2 classes".
inline std::string counted(std::uint64_t count, const std::string& thing) {
  const std::string text = std::to_string(count) + " " + thing;
  return count == 1 ? text : text + (thing.ends_with('s') ? "es" : "s");
}

}  // namespace convoy::cli
