// The machine-readable twin of a table: one JSON object per line.
#pragma once

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/own_files.h"
#include "convoy/base/error.h"

namespace convoy::cli {

// To a file, '-' for standard output, or nowhere when the name is empty. Throws UsageError when the
// file can't be written, or is there and is no such table: the first row of a file has the key
// "convoy", by which it is known. A table that is there is replaced at the first row, or at the end
// where there is none; a command that fails before its first row leaves it as it was.
class Rows {
 public:
  explicit Rows(const std::string& name) : name_(name) {
    if (name.empty() || name == "-") return;
    check_own_file("--json", name, kTableFile);
    std::error_code ignored;
    made_ = !std::filesystem::exists(name, ignored);
    file_.open(name, std::ios::app);
    if (!file_) throw UsageError("--json: can't write '" + name + "'");
  }
  ~Rows() {
    if (!file_.is_open() || begun_) return;
    std::error_code ignored;
    if (!only_checked_ && std::uncaught_exceptions() == exceptions_) {
      empty();
    } else if (made_) {
      std::filesystem::remove(name_, ignored);
    }
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // Throws UsageError as the constructor does, and changes nothing.
  static void check(const std::string& name) {
    Rows rows(name);
    rows.only_checked_ = true;
  }

  // Whether the table for people has to go elsewhere (or nowhere).
  bool on_standard_output() const { return name_ == "-"; }
  // Bytes that are no UTF-8 are replaced.
  void add(const nlohmann::ordered_json& row) {
    if (name_.empty()) return;
    nlohmann::ordered_json marked;
    if (!on_standard_output() && !begun_) {
      empty();
      marked = {{"convoy", "table"}};
    }
    begun_ = true;
    marked.update(row);
    std::ostream& out = on_standard_output() ? std::cout : file_;
    out << marked.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    if (!out) throw Failure("--json: writing '" + name_ + "' failed");
  }

 private:
  // What is no file on a disk, a pipe say, can't be.
  void empty() {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(name_, ignored))
      std::filesystem::resize_file(name_, 0, ignored);
  }

  std::string name_;
  std::ofstream file_;
  bool made_ = false;   // it was not there
  bool begun_ = false;  // there is a row
  bool only_checked_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace convoy::cli
