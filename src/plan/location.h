// A robust mean and scatter.
#pragma once

#include <span>

namespace convoy::plan {

struct Location {
  double center = 0;
  double scatter = 0;  // 0 for equal values
};

// Huber's second proposal: location and scatter of values around it; `parameters` are taken off the
// degrees of freedom.
Location location_of(std::span<const double> values, double parameters = 1);

// The same from a first guess with scatter > 0. Stops when a step is below `tolerance` scatters.
Location improved_location(std::span<const double> values, Location from, double parameters,
                           double tolerance);

}  // namespace convoy::plan
