// A stream of mpirun on its way to the user.
#pragma once

#include "cli/launch/filter.h"
#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// Passes one stream of mpirun on to a stream of this process, without what its filter takes out.
class Relay {
 public:
  // `target` is a descriptor of this process, STDERR_FILENO say.
  Relay(Descriptor source, int target, StreamFilter filter);

  // For poll(); -1 after the end of the stream.
  int source() const { return source_.get(); }
  bool open() const { return source_.open(); }
  // Passes on what can be read now, and what has waited long enough to become a message of mpirun.
  // If nobody reads the target any more, the job goes on: its results are elsewhere.
  void advance();
  // Passes on what was held, too; nothing can be read afterwards.
  void close();
  // Whether something waits to become a message of mpirun, so that advance() is wanted soon.
  bool holds() const { return filter_.holds(); }
  int target() const { return target_; }
  // Whether the last byte that was passed on did not end a line.
  bool mid_line() const { return mid_line_; }
  StreamFilter& filter() { return filter_; }

  // How long it waits.
  static constexpr std::chrono::milliseconds kHold{100};

 private:
  void forward(const std::string& bytes);

  Descriptor source_;
  int target_;
  StreamFilter filter_;
  Clock::time_point last_bytes_{};
  bool mid_line_ = false;
};

}  // namespace convoy::cli
