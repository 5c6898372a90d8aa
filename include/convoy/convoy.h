// All of Convoy that a training program needs.
#pragma once

#include "convoy/comm/world.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/sampler.h"

namespace convoy {
using comm::World;
using comm::WorldOptions;
using parallel::BatchNormStatistics;
using parallel::DistributedModel;
using parallel::DistributedOptions;
using parallel::DistributedSampler;
using parallel::DistributedSamplerOptions;
}  // namespace convoy
