// Carries one output stream of a program to the terminal and to a log.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cli/launch/lines.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// Never blocks: the supervisor has signals to answer while mpirun or a terminal is slow. It reads
// only when all that was read before is on its way, so a slow reader slows the program, as it would
// without.
class Pump {
 public:
  // Reads from `source` and writes to `sink` and, unless it is -1, to `log`. A
  // label stands before each line on the sink. Not in use until a source is given.
  Pump() = default;
  Pump(Descriptor source, int sink, int log, std::string label);

  // What to wait for; -1 for nothing.
  int readable_fd() const;
  int writable_fd() const;
  // Moves what can be moved now.
  void advance();
  // What has arrived by now is the last: whoever goes on writing is not heard.
  void end_input();
  // True once everything has been passed on, or nobody takes it any more.
  bool done() const;
  // Why the log is incomplete (an errno), 0 if it is not. Told once.
  int take_log_error();

 private:
  void take(std::string_view bytes);
  void close_source();
  void take_line(std::string_view line);
  void write_log();

  Descriptor source_;
  std::optional<std::size_t> rest_;  // bytes to read still, see end_input()
  int sink_ = -1;
  int log_ = -1;
  std::string label_;
  LineCutter cutter_;
  std::string lines_;    // for the log, whole: the other stream of the rank writes to it, too
  std::string pending_;  // for the sink
  int log_error_ = 0;
};

}  // namespace convoy::cli
