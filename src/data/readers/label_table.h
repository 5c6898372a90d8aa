// The labels of images as a text file says them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/data/dataset.h"

namespace convoy::data {

struct TableLine {
  std::string path;  // normalized
  std::size_t number = 0;
  std::vector<std::int64_t> labels;  // ascending
};

struct ReadTable {
  std::vector<std::string> classes;
  std::vector<TableLine> lines;  // in the order of paths, each once

  // The line of a path; null if there is none.
  const TableLine* find(std::string_view path) const;
};

// Throws UsageError naming the file and the line, see open_image_folder().
ReadTable read_label_table(const LabelTable& table);

// Reads a table from the text of its file; `classes` are the given ones, if there are any. Throws
// the same.
ReadTable parse_label_table(std::string_view text, const LabelTable& table,
                            std::vector<std::string> classes);

}  // namespace convoy::data
