// A robust mean and scatter.
#pragma once

#include <span>

namespace convoy::plan {

struct Location {
  double center = 0;
  double scatter = 0;  // 0 for equal values
};

// Gives the location of values, and their scatter around it, by Huber's second proposal;
// `parameters` are taken off the degrees of freedom.
Location location_of(std::span<const double> values, double parameters = 1);

// Begins with a guess whose scatter is above 0, and stops when a step is below `tolerance`
// scatters.
Location improved_location(std::span<const double> values, Location from, double parameters,
                           double tolerance);

}  // namespace convoy::plan
