// What the ranks of a communicator agree on before they write a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "train/checkpoint/plan.h"

namespace convoy::train {

// The plan for what the ranks hold, made by each of them. It is kept: what they hold is mostly what
// they held at the checkpoint before, and then they tell each other no more than that.
class SharedPlan {
 public:
  // Collective. `outcome` is that of making `held` (train/outcome.h). Throws the first mistake, on
  // every rank. Gives the texts of the ranks' `words`, each once.
  std::vector<std::string> update(const comm::Communicator& all, const std::string& outcome,
                                  const std::vector<HeldSlice>& held, const std::string& words);
  // REQUIRES: update() has returned once. References into it are good until it is called again.
  const Plan& plan() const { return *plan_; }

 private:
  std::vector<std::string> hashes_;  // of what each rank held
  std::unique_ptr<const Plan> plan_;
};

// Which ranks see a folder of rank 0's: it makes a file there for a moment. Collective. Throws on
// every rank when it can't.
std::vector<bool> who_sees(const comm::Communicator& all, const std::string& folder);

}  // namespace convoy::train
