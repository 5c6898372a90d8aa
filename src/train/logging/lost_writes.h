// Writing what a training can do without. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/log.h"

namespace convoy::train {

// This is for writes to one file: where the disk is full, training goes on, and each further write
// is tried. One thread at a time.
class LostWrites {
 public:
  // `what` is in it, for messages: several.
  LostWrites(const Log& log, std::string what) : log_(log), what_(std::move(what)) {}

  // Calls `write`. The first time that it throws Failure is told.
  void write(const std::function<void()>& write) {
    try {
      write();
    } catch (const Failure& error) {
      if (lost_++ == 0)
        log_.warning(message_of(error) + "; training goes on, and tries again to write " + what_);
    }
  }
  // Tells at the end how many were lost.
  void sum_up() const {
    if (lost_ > 0) log_.warning(std::to_string(lost_) + " " + what_ + " could not be written");
  }

 private:
  Log log_;
  std::string what_;
  std::int64_t lost_ = 0;
};

}  // namespace convoy::train
