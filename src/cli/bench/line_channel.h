// Lines that are written to another process and read from it.
#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// Sleeps until poll(2) finds something at one of these. False at the deadline. Throws Failure when
// this process has been told to end (cli/training/signals.h).
bool wait_for_input(std::span<pollfd> descriptors, Clock::time_point deadline);

// One thread at a time.
class LineChannel {
 public:
  // One that is closed.
  LineChannel() = default;
  LineChannel(Descriptor to, Descriptor from) : to_(std::move(to)), from_(std::move(from)) {}

  // Writes a line without its end. One that nobody reads is lost: who reads the answer finds out.
  void write_line(const std::string& line) const;

  enum class Got { line, end, nothing };
  // Sleeps until there is a whole line, which it puts into `line` without its end; or the end of
  // what the other writes; or, with nothing, until the deadline. Throws as wait_for_input does.
  Got read_line(std::string& line, Clock::time_point deadline);

  // The descriptor that is read from, or -1.
  int reading() const { return from_.get(); }
  void close();

 private:
  Descriptor to_;
  Descriptor from_;
  std::string pending_;
};

}  // namespace convoy::cli
