// What runs of a comparison would take if each of their processes had a machine of its own:
// computed from what they have counted and measured, and never mixed with that.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/downpour/figures.h"
#include "train/report/page.h"

namespace convoy::cli {

struct ProjectionSettings {
  double link_gbit = 10;  // of each machine, each way
  std::vector<int> more;  // numbers of replicas that were not measured, of Sandblaster
};

// Times are seconds. A unit of work is a mini-batch of a replica of Downpour, an evaluation of
// Sandblaster.
struct Projected {
  Method method = Method::sandblaster;
  int replicas = 1;
  double measured_s = kNone;  // to the level, here; not a number: that was not measured
  double projected_s = kNone;
  double units = 0;      // to the level, of all replicas together
  double compute_s = 0;  // of a unit: its replicas, ...
  double servers_s = 0;  // ... the bytes through the busiest link of a server, ...
  double wait_s = 0;     // ... and what waits for neither of them to be done by the other
  std::string bound;     // "computing" or "servers' links": which takes longer
};

struct Projection {
  std::vector<std::string> assumptions;  // sentences
  std::vector<Projected> rows;
};

// REQUIRES: runs.level. Runs that never came to it are left out, and so are methods without
// servers.
Projection project(const ComparedRuns& runs, const ProjectionSettings& settings);

nlohmann::ordered_json row_of(const Projected& projected);
void print_projection(const Projection& projection, std::FILE* out);
void add_projection(train::Page& page, const Projection& projection);

}  // namespace convoy::cli
