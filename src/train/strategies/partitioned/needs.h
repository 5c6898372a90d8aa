// How much memory a part of a network takes, known before any of it is allocated.
#pragma once

#include <cstdint>
#include <string>

#include <vector>

#include "convoy/comm/world.h"
#include "convoy/model/partition.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// How many replicas add up gradients, and how many samples of a batch the largest share of one has;
// 0: nobody knows.
struct ReplicaShare {
  int replicas = 1;
  std::int64_t samples = 0;
  // NetworkSource::copies_beside().
  int copies = -1;
};

// What a network is built for.
enum class NetworkUse {
  training,
  inference,  // of one that was trained
  following,  // evaluations and checkpoints of one that others train
  timing      // of its layers, one after the other, which tells how it is to be divided
};

// Bytes of one partition.
struct PartitionNeeds {
  double parameters = 0;  // and buffers
  // These count the buckets in which gradients are added up, too, but for those that are computed
  // there.
  double gradients = 0;
  double buckets = 0;      // of gradients that are copied there, which are among them
  double layer = 0;        // parameters of the layer that has most
  double kept = 0;         // copies of the parameters beside the network (ReplicaShare::copies)
  double optimizer = 0;    // what it gathers; of a plugin's optimizer that is not known: 0
  double inferred = 0;     // of one sample, in inference: what a layer reads and gives
  double activations = 0;  // of one sample, in training, with messages under way
  double copies = 0;       // of what local filters see (model::local_copies), of all samples
  double samples = 0;
  double training() const { return gradients + optimizer; }
  double batch() const { return samples * activations + copies; }
  double all() const { return parameters + training() + batch(); }
  double of(NetworkUse use) const;
};
PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, int partition,
                        const ReplicaShare& share = {});
// Those of all partitions.
std::vector<PartitionNeeds> all_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                                      const model::PartitionPlan& plan, const ReplicaShare& share);
// Shapes of the inputs of the network that was planned.
std::vector<model::Shape> planned_inputs(const model::PartitionPlan& plan);

// "partitioned over 4 ranks: one holds up to 20.3 M of 81.0 M parameters (77.4 MiB; training takes
// 155 MiB more, and 1.2 MiB for each sample of a replica's batch: 312 MiB with 16 samples, which
// the process takes beside the 180 MiB that it has)"; of a network that is not trained there is
// what evaluations take in the place of training.
std::string describe_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                           const model::PartitionPlan& plan, const ReplicaShare& share,
                           NetworkUse use = NetworkUse::training);

// Samples of a mini-batch of evaluations.
std::int64_t evaluation_batch(const Recipe& recipe);
// NetworkSource::copies_beside() of a replica of a job with this recipe.
int copies_around(const Recipe& job);

// Throws UsageError on every rank where one of them can't have what this use of the network needs,
// with the numbers, and what would do. Made before anything is allocated, and once: it counts all
// that the rank will have. What a rank can have is what its own limit (RLIMIT_AS) leaves, and what
// its cgroup and its host do beside the needs of others there. `job` is the recipe of the user,
// which what is advised is for, where `recipe` was made of it; `partition` is this rank's.
// Collective over the world.
void check_needs(const comm::World& world, const Recipe& recipe, const Recipe& job,
                 const model::Blueprint& blueprint, const model::PartitionPlan& plan,
                 const ReplicaShare& share, int partition, NetworkUse use);

// Memory that ranks have together, and how many they are in a job of so many.
struct MemoryLimit {
  double bytes = 0;
  int ranks = 1;
};

// How the ranks of a job lie to its memory. `all`: ranks of the job; `own`: what each further
// process takes before it has anything of a network.
struct MemoryLimits {
  std::vector<MemoryLimit> limits = {};
  int all = 1;
  double own = 0;
};

// The recipe's number of partitions, if it is larger than the plan's, or else the first of twice as
// many as the plan has, twice that and so on, with which no rank of `replicas` replicas needs more
// than there is; 0: none up to 256. Ranks lie on hosts as
// they do now. Layers are divided as with_partitions() has it.
int enough_partitions(const Recipe& recipe, const model::Blueprint& blueprint,
                      const model::PartitionPlan& plan, const ReplicaShare& share,
                      const MemoryLimits& memory, int replicas, NetworkUse use);

// A recipe of "partitioned" for another number of partitions: without the parts and speeds that are
// for as many as it has.
Recipe with_partitions(const Recipe& recipe, int partitions);

// "let grid.partitions be 4 (--set grid.partitions=4 -n 4)": what a user has to change in his
// recipe for that many, ranks included.
std::string partitions_advice(const Recipe& job, int partitions, int replicas, NetworkUse use);

}  // namespace convoy::train
