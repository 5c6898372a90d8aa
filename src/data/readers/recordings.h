// Which recordings there are.
#pragma once

#include <string>
#include <vector>

#include "convoy/data/speech.h"

namespace convoy::data {

struct Recording {
  std::string path;
  std::string word;
  bool operator==(const Recording&) const = default;
};

// Lists the recordings in alphabetical order of names, at least one. Throws UsageError naming the
// folder or the file.
std::vector<Recording> list_recordings(const Recordings& which);

}  // namespace convoy::data
