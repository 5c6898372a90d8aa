// Shortening a text file that grows line by line.
#pragma once

#include <functional>
#include <string>

namespace convoy::train {

// Rewrites the file, whole or not at all, with those of its lines that `keep` (given the line
// without its line feed) accepts. A last line without a line feed was being written when its
// process died: it goes. Throws Failure naming the file.
void keep_lines(const std::string& path, const std::function<bool(const std::string& line)>& keep);

}  // namespace convoy::train
