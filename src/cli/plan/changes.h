// What a better machine would change, and what machines cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/choice.h"
#include "convoy/plan/hardware.h"

namespace convoy::cli {

// What is trained, and with what.
struct PlannedTraining {
  plan::UpdateFit updates;
  plan::MeasuredMachine machine;
  std::int64_t batch = 0;
  std::int64_t workers = 0;
  std::int64_t largest = 0;  // batch that there may be
};

// The time to the target. Nothing of the best batch where the law of updates is not trusted.
struct TrainingTime {
  plan::Estimate seconds;
  std::optional<plan::Optimum> best;
};
// Throws UsageError where nothing is predicted for its batch.
TrainingTime time_of(const PlannedTraining& training);

// What the time would be if one thing were `factor` times as good: with the batch as it is, and
// with the one that is best then. Speed-ups have the intervals that the fits' draws make.
struct Change {
  struct WithBatch {
    double batch = 0;
    double seconds = 0;
    plan::Estimate speedup = {};
  };
  std::string change;
  std::optional<WithBatch> same;  // nothing where the workers would be too many for it
  std::optional<WithBatch> best;  // nothing where the law of updates is not trusted, or likewise
};
// The best first.
std::vector<Change> changes_of(const PlannedTraining& training, double factor);

// A file of prices:
//
//   budget = 20000
//   most_workers = 64       # default 1024
//   [compute]
//   price = 1500            # of a worker with the processor of today
//   power = 1.0             # a processor f times as fast costs f^power as much; default 1
//   slowest = 0.5           # that there is, in times as fast as that of today; default 1
//   fastest = 4             # likewise; default 1
//   [bandwidth]
//   price = 4000            # of the network of today
//   power = 1.0
struct PriceList {
  struct Part {
    double price = 0;
    double power = 1;
  };
  double budget = 0;
  std::int64_t most_workers = 1024;
  Part compute, bandwidth;
  plan::ProcessorRange processors;
};
// Throws UsageError naming the file and what is wrong.
PriceList read_prices(const std::string& path);
// Gives the prices for the machine of today.
plan::Prices prices_of(const PriceList& list, const plan::Machine& machine);

}  // namespace convoy::cli
