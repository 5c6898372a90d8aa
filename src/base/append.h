// Appending to a file that others read while it grows.
#pragma once

#include <string>

namespace convoy {

enum class Durability {
  none,
  synced  // it is on the disk when the call returns
};

// Writes all of `text` at the end, by one write(2) if the system takes it, or nothing: what a full
// disk took of it is cut off again. Throws Failure naming `path`.
void append_whole(int file, const std::string& text, const std::string& path,
                  Durability durability = Durability::none);

}  // namespace convoy
