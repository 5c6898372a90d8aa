// The times of updates and of communication that a sweep measures.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

#include "cli/plan/deadline.h"
#include "cli/plan/measure.h"
#include "cli/plan/sweep.h"

namespace convoy::cli {

// Numbers of workers that there is room for.
std::vector<std::int64_t> measurable_workers(const Sweep& sweep);

// The updates of so many workers that are timed: with two batches, ascending, where some of them
// share a host, so that what they lose to each other is told from communication. They are those
// that such updates were timed with already, if these still fit: M_T may have come out a little
// different since. Others give each worker what it has where there are more workers, or fewer.
std::vector<Exchange> exchanges_of(const Sweep& sweep, const plan::PlanPoints& points,
                                   std::int64_t workers);

// Times of another machine are measured again. Those of this one may have a name of before.
void choose_machine(const Sweep& sweep, PlanFolder& folder, std::FILE* out);

class SweepTimes {
 public:
  SweepTimes(const Planned& planned, const Sweep& sweep, PlanFolder& folder, std::FILE* out)
      : planned_(planned),
        sweep_(sweep),
        folder_(folder),
        out_(out),
        timed_(sweep.timed),
        workers_(measurable_workers(sweep)) {}

  // All of them; with a deadline, as many as the plan needs, and more in half of the time.
  // Throws UsageError where the deadline leaves less than it needs.
  void measure();

  // The batches that there is training with.
  const std::vector<std::int64_t>& timed() const { return timed_; }

 private:
  // What a machine is fitted to.
  static constexpr std::size_t kTimes = 3, kExchanges = 2;

  // Repetitions of so many sizes that make `needed` measurements.
  static int fewest(std::size_t sizes, std::size_t needed) {
    return sizes == 0 ? 0 : static_cast<int>((needed + sizes - 1) / sizes);
  }

  void say_what_is_timed_anew() const;
  void compute(int times, const Deadline& deadline);
  std::vector<Exchange> exchanges() const;
  void exchange(int times, const Deadline& deadline);
  void repeat(const Deadline& deadline);
  void check_enough() const;

  const Planned& planned_;
  const Sweep& sweep_;
  PlanFolder& folder_;
  std::FILE* out_;
  std::vector<std::int64_t> timed_, workers_;
};

}  // namespace convoy::cli
