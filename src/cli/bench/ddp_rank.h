// Convoy's ranks in `convoy bench ddp`.
#pragma once

#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::cli {

// Writes the network's first weights to `weights.safetensors` in this folder, joins the benchmark
// that waits there (rank_job.h), and trains as many steps as it asks for, until it ends. The
// registry has the made-up images. Collective.
void serve_ddp_rank(const comm::World& world, const train::Recipe& recipe,
                    const train::Registry& registry, const std::string& folder);

}  // namespace convoy::cli
