// The progress of a command that reads or writes data files.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "convoy/train/metrics.h"

namespace convoy::cli {

// On a terminal a bar, elsewhere a line now and then; nothing where standard output carries the
// rows of --json. May be updated as often as one likes.
class Bar {
 public:
  Bar(std::string label, std::string unit, bool quiet) : label_(std::move(label)) {
    if (!quiet) progress_.emplace(train::progress_on_standard_output(), std::move(unit));
  }

  void update(double done, double total, const std::string& text = "") {
    if (!progress_) return;
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - shown_ < std::chrono::milliseconds(50)) return;
    shown_ = now;
    progress_->update(label_, done, total, text);
  }
  // Ends the line.
  void finish() { progress_.reset(); }

 private:
  std::string label_;
  std::optional<train::Progress> progress_;
  std::chrono::steady_clock::time_point shown_;
};

inline constexpr double kMegabyte = 1e6;

}  // namespace convoy::cli
