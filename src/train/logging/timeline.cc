#include "convoy/train/timeline.h"

#include "base/own_files.h"
#include "convoy/base/files.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::train {
namespace {

using parallel::ReductionSpan;

void add_span(Timeline& timeline, const ReductionSpan& span, ReducerRows::Of of) {
  const auto bucket = static_cast<std::int64_t>(span.bucket);
  const auto bytes = static_cast<std::int64_t>(span.bytes);
  const bool parts = of == ReducerRows::Of::parts;
  const std::string number = std::to_string(bucket) + (parts ? " of parts" : "");
  const int row = static_cast<int>(bucket) + (parts ? ReducerRows::kParts : 1);
  switch (span.kind) {
    case ReductionSpan::Kind::copy:
      timeline.add(Timeline::kTraining, "copy " + std::string(span.parameter), span.begin, span.end,
                   {{"bucket", bucket}, {"bytes", bytes}});
      return;
    case ReductionSpan::Kind::wait:
      timeline.add(Timeline::kTraining, "wait for reductions", span.begin, span.end);
      return;
    case ReductionSpan::Kind::reduction:
      timeline.name_row(row, "bucket " + number + ", " + format_bytes(span.bytes));
      timeline.add(row, "reduce bucket " + number, span.begin, span.end, {{"bytes", bytes}});
      return;
  }
}

// The zero of this rank's clock that fits those of the others, and the earliest span of all.
Clock::time_point common_zero(const comm::World& world, const Timeline& timeline) {
  using Seconds = std::chrono::duration<double>;
  world.communicator().barrier();
  const auto now = Clock::now();
  // Ranks of one host see the same clock: the first of them says when the barrier was.
  const std::vector<Clock::rep> times = world.communicator().gather(now.time_since_epoch().count());
  int first = 0;
  while (world.host(first) != world.host(world.rank())) ++first;
  const Clock::time_point barrier{Clock::duration(times[static_cast<std::size_t>(first)])};
  std::vector<double> earliest{timeline.empty() ? 0 : Seconds(timeline.begin() - barrier).count()};
  world.communicator().allreduce(comm::buffer_of(earliest), comm::ReduceOp::min);
  return barrier + std::chrono::duration_cast<Clock::duration>(Seconds(earliest[0]));
}

}  // namespace

ReducerRows::ReducerRows(Timeline& timeline, parallel::GradientReducer& reducer, Of of)
    : reducer_(reducer) {
  reducer_.set_observer(
      [&timeline, of](const ReductionSpan& span) { add_span(timeline, span, of); });
}
ReducerRows::~ReducerRows() { reducer_.set_observer({}); }

void write_timelines(const comm::World& world, const Timeline& timeline, const std::string& path) {
  const Clock::time_point zero = common_zero(world, timeline);
  const std::vector<std::string> events = world.communicator().gather_text(
      timeline.events(world.rank(), world.host(world.rank()), zero));
  if (world.rank() != 0) return;
  check_own_file("--timeline", path, kTimelineFile);
  std::string text = std::string(kTimelineMark) + "\n";
  for (const std::string& of_rank : events) text += (&of_rank == &events[0] ? "" : ",\n") + of_rank;
  write_file_atomically(path, text + "\n]}\n");
}

}  // namespace convoy::train
