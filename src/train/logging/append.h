// Appending to a file that others read while it grows.
#pragma once

#include <string>

namespace convoy::train {

// Writes all of `text` at the end, by one write(2) if the system takes it, or nothing: what a full
// disk took of it is cut off again. Throws Failure naming `path`.
void append_whole(int fd, const std::string& text, const std::string& path);

}  // namespace convoy::train
