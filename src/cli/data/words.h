// Numbers of things in sentences.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace convoy::cli {

// For printf's %llu, whatever the 64-bit type of this machine is.
inline unsigned long long number(std::uint64_t value) { return value; }

// "1 image", "2 images", "1 class", "2 classes".
inline std::string counted(std::uint64_t count, const std::string& thing) {
  const std::string text = std::to_string(count) + " " + thing;
  return count == 1 ? text : text + (thing.ends_with('s') ? "es" : "s");
}

// A tar's classes are the last folders of its images, a folder's the first ones.
inline void print_other_classes(std::uint64_t by_first_folders) {
  if (by_first_folders == 0) return;
  std::printf(
      "classes  the folders that hold the images; the first folders, which are the classes of a "
      "folder of the same images, would be %llu\n",
      number(by_first_folders));
}

}  // namespace convoy::cli
