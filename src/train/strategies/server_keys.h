// The keys that strategies around a parameter server have in common. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "convoy/server/job.h"
#include "convoy/train/options.h"
#include "convoy/train/server_job.h"

namespace convoy::train {

// Those of the strategy stand between them.
std::vector<Option> with_server_keys(std::vector<Option> own);

// Appends what is wrong with them, and what no such job can have. `own`: they may be chosen
// otherwise by the strategy.
void check_server_keys(const Recipe& recipe, std::vector<std::string>& problems);

// What follows from them; of samples it says nothing yet.
server::JobPlan plan_of_servers(const Recipe& recipe);

}  // namespace convoy::train
