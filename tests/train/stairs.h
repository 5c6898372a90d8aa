// A schedule as a plugin would bring it: down to a part of the rate in so many equal stairs.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "convoy/train/registry.h"

namespace convoy::train::testing_data {

// Of the training behind its warm-up so much is over.
inline double rate_of_stairs(double lr, std::int64_t count, double low, double part) {
  const auto stairs = static_cast<double>(count);
  return lr * (1 - (1 - low) * std::min(std::floor(part * stairs), stairs - 1) / stairs);
}

inline void add_stairs(Registry& registry) {
  registry.add_schedule({.name = "stairs",
                         .doc = "down towards low in equal stairs",
                         .options = {{.key = "count",
                                      .initial = std::int64_t{4},
                                      .doc = "of them",
                                      .resume = ResumeRule::fixed,
                                      .why = "the training stands on one of them",
                                      .check = [](const Value& value) -> std::string {
                                        return std::get<std::int64_t>(value) < 1
                                                   ? "has to be at least 1"
                                                   : "";
                                      }},
                                     {.key = "low",
                                      .initial = 0.0,
                                      .doc = "the rate below the last one, as a part of lr",
                                      .resume = ResumeRule::free}},
                         .check =
                             [](const Recipe& recipe, std::vector<std::string>& problems) {
                               if (recipe.schedule.options.number("low") > 1)
                                 problems.emplace_back("schedule.low is above 1: stairs lead down");
                             },
                         .rate =
                             [](const ScheduleRequest& r) {
                               return rate_of_stairs(r.lr, r.options.integer("count"),
                                                     r.options.number("low"), r.part);
                             }});
}

}  // namespace convoy::train::testing_data
