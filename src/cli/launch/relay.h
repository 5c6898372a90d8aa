// A stream of mpirun on its way to the user.
#pragma once

#include "cli/launch/filter.h"
#include "cli/launch/output.h"
#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// Passes one stream of mpirun on to a stream of this process, without what its filter takes out.
// Never blocks: what is not read there in time stays where it is, as it would without this process.
class Relay {
 public:
  // `target` outlives this object, and is written to by whoever has it.
  Relay(Descriptor source, LineOutput& target, StreamFilter filter);

  // For poll(); -1 after the end of the stream, and while its target is full, unless all is wanted.
  int source(bool whole = false) const { return target_->full() && !whole ? -1 : source_.get(); }
  bool open() const { return source_.open(); }
  // Passes on what can be read now, as far as its target takes it (`whole`: however much that
  // keeps), and what has waited long enough to become a message of mpirun. If nobody reads the
  // target any more, the job goes on: its results are elsewhere.
  void advance(bool whole = false);
  // Passes on all that can be read now, however much: for the end, when nobody writes any more.
  // Waits for up to `patience` for the first of it; returns false where there is nothing.
  bool advance_whole(std::chrono::milliseconds patience);
  // Passes on what was held, too; nothing can be read afterwards.
  void close();
  // Whether something waits to become a message of mpirun, so that advance() is wanted soon.
  bool holds() const { return filter_.holds(); }
  LineOutput& target() const { return *target_; }
  // Whether the last byte that was passed on did not end a line.
  bool mid_line() const { return mid_line_; }
  StreamFilter& filter() { return filter_; }

  // How long it waits.
  static constexpr std::chrono::milliseconds kHold{100};

 private:
  void forward(const std::string& bytes);
  void read_source(bool whole);
  void release_held();

  Descriptor source_;
  LineOutput* target_;
  StreamFilter filter_;
  Clock::time_point last_bytes_{};
  bool mid_line_ = false;
};

}  // namespace convoy::cli
