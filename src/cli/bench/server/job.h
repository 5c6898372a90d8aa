// A job of nothing but a coordinator and servers, on this machine.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/server/child.h"
#include "convoy/server/job.h"

namespace convoy::cli {

// Processes of their own, which end with this object. Their folders are in `folder`.
//
// REQUIRES: made while this process has one thread.
class BenchJob {
 public:
  BenchJob(const server::JobPlan& plan, const std::string& folder);

  const std::string& coordinator() const { return coordinator_; }  // its address

 private:
  std::string coordinator_;
  std::vector<Child> processes_;  // servers, then their coordinator
};

}  // namespace convoy::cli
