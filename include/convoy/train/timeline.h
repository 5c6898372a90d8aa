// This is what each rank did when, in a file that Perfetto (ui.perfetto.dev) and chrome://tracing
// open. docs/performance.md shows one and says how to read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"

namespace convoy::comm {
class World;
}
namespace convoy::parallel {
class GradientReducer;
}

namespace convoy::train {

// Spans of time of one rank, on rows: row 0 is the thread that trains, where spans may lie within
// each other; on every other row one comes after the other. One thread at a time.
class Timeline {
 public:
  static constexpr int kTraining = 0;
  using Numbers = std::vector<std::pair<std::string, std::int64_t>>;

  // `numbers` are shown with the span.
  void add(int row, std::string name, Clock::time_point begin, Clock::time_point end,
           Numbers numbers = {});
  // Gives what to call a row; row 0 has a name.
  void name_row(int row, std::string name);
  bool empty() const { return spans_.empty(); }
  // Gives the begin of the first span; not of an empty timeline.
  Clock::time_point begin() const;

  // Gives the rows and spans as objects of the trace event format ("M" and "X"), one a line,
  // separated by commas. The process is rank + 1, since 0 means something else to viewers; times
  // are microseconds after `zero`.
  std::string events(int rank, const std::string& host, Clock::time_point zero) const;

 private:
  struct Span {
    int row;
    std::string name;
    Clock::time_point begin, end;
    Numbers numbers;
  };
  std::vector<Span> spans_;
  std::map<int, std::string> rows_{{kTraining, "training"}};
};

// While it lives, what a reducer does is added to a timeline: copies into buckets and the wait at
// the end of backward on row 0, and the reduction of bucket b, from its start to where the reducer
// found it done, on a row of its own: b + 1, or kParts + b for the reducer of divided layers, whose
// buckets are those "of parts". Make and destroy it between steps.
class ReducerRows {
 public:
  static constexpr int kParts = 500;
  enum class Of : std::uint8_t { all, parts };
  ReducerRows(Timeline& timeline, parallel::GradientReducer& reducer, Of of = Of::all);
  ~ReducerRows();
  ReducerRows(const ReducerRows&) = delete;
  ReducerRows& operator=(const ReducerRows&) = delete;

 private:
  parallel::GradientReducer& reducer_;
};

// Writes the timelines of all ranks into one file, on rank 0. The ranks of a host share its clock;
// those of different hosts are aligned at a barrier, to about the time that one takes. Time 0 is
// the begin of the first span of all. Throws Failure when it can't be written. Collective.
void write_timelines(const comm::World& world, const Timeline& timeline, const std::string& path);

}  // namespace convoy::train
