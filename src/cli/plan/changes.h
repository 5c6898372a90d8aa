// What a better machine would change, and what machines cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/hardware.h"

namespace convoy::cli {

// What the time would be if one thing were `factor` times as good: with the batch as it is, and
// with the one that is best then (plan::what_if).
struct Change {
  std::string change;
  std::optional<double> seconds;  // with this batch; nothing where the workers would be too many
  plan::WhatIf best;
};
std::vector<Change> changes_of(const plan::UpdateLaw& law, const plan::Machine& machine,
                               std::int64_t batch, std::int64_t workers, double factor);

// A file of prices:
//
//   budget = 20000
//   most_workers = 64       # default 1024
//   [compute]
//   price = 1500            # of a worker with the processor of today
//   power = 1.0             # a processor f times as fast costs f^power as much; default 1
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
};
// Throws UsageError naming the file and what is wrong.
PriceList read_prices(const std::string& path);
// Gives the prices for the machine of today.
plan::Prices prices_of(const PriceList& list, const plan::Machine& machine);

}  // namespace convoy::cli
