// Rows of a benchmark that another process of this program measures.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace convoy::cli {

struct RowRun {
  int exit_status = 0;  // 128 + signal if it was killed
  std::vector<nlohmann::ordered_json> rows;
  std::string complaint;  // why it failed, as it said itself
};

// Runs this program with these words, the last of which make it write its rows to standard output.
// What it writes to standard error appears on that of this process. It ends when this process does.
RowRun run_for_rows(const std::vector<std::string>& words);

}  // namespace convoy::cli
