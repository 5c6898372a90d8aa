// How much memory a part of a network takes, known before any of it is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/model/partition.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// How many replicas add up gradients, and how many samples of a batch the largest share of one has;
// 0: nobody knows.
struct ReplicaShare {
  int replicas = 1;
  std::int64_t samples = 0;
};

// Bytes of one partition.
struct PartitionNeeds {
  double parameters = 0;  // and buffers
  // These count the buckets in which gradients are added up, too, but for those that are computed
  // there.
  double gradients = 0;
  double optimizer = 0;    // what it gathers; of a plugin's optimizer that is not known: 0
  double activations = 0;  // of one sample, in training, with messages under way
  double copies = 0;       // of what local filters see (model::local_copies), of all samples
  double samples = 0;
  double training() const { return gradients + optimizer; }
  double batch() const { return samples * activations + copies; }
  double all() const { return parameters + training() + batch(); }
};
PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, int partition,
                        const ReplicaShare& share = {});

// "partitioned over 4 ranks: one holds up to 20.3 M of 81.0 M parameters (77.4 MiB; training takes
// 155 MiB more, and 1.2 MiB for each sample of a replica's batch: 312 MiB with 16 samples, which
// the process takes beside the 180 MiB that it has)"
std::string describe_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                           const model::PartitionPlan& plan, const ReplicaShare& share);

// Throws UsageError on every rank where one of them can't have what it needs, with the numbers, and
// how many partitions would do. What a rank can have is what its cgroup and its own limit
// (RLIMIT_AS) leave, and its host beside what other ranks there need. `wanted`: bytes of this rank.
// Collective over the world.
void check_needs(const comm::World& world, const Recipe& recipe, const model::Blueprint& blueprint,
                 const model::PartitionPlan& plan, const ReplicaShare& share, double wanted,
                 const std::string& what);

// The first number of partitions, twice as many as the plan has or twice that and so on, with which
// no rank needs more than `memory` bytes; 0: none up to 256. Layers are divided as the recipe says,
// in even parts: its own are for as many partitions as it has.
int enough_partitions(const Recipe& recipe, const model::Blueprint& blueprint,
                      const model::PartitionPlan& plan, const ReplicaShare& share, double memory);

}  // namespace convoy::train
