// The machine-readable twin of a table: one JSON object per line.
#pragma once

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "convoy/base/error.h"

namespace convoy::cli {

// To a file, '-' for standard output, or nowhere when the name is empty. Throws UsageError when the
// file can't be written.
class Rows {
 public:
  explicit Rows(const std::string& name) : name_(name) {
    if (name.empty() || name == "-") return;
    file_.open(name);
    if (!file_) throw UsageError("--json: can't write '" + name + "'");
  }
  // Whether the table for people has to go elsewhere (or nowhere).
  bool on_standard_output() const { return name_ == "-"; }
  // Bytes that are no UTF-8 are replaced.
  void add(const nlohmann::ordered_json& row) {
    if (name_.empty()) return;
    std::ostream& out = on_standard_output() ? std::cout : file_;
    out << row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    if (!out) throw Failure("--json: writing '" + name_ + "' failed");
  }

 private:
  std::string name_;
  std::ofstream file_;
};

}  // namespace convoy::cli
