// This is what a job on a parameter server consists of.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "convoy/server/vectors.h"

namespace convoy::server {

// This is what the one who starts a job decides, and everybody else learns from the coordinator.
struct JobPlan {
  std::string name;
  std::string recipe;  // for the replicas; servers don't read it
  std::uint32_t shards = 1;
  std::uint32_t servers = 1;  // processes; at least 2 with backups
  bool backups = true;        // each shard has one, on another server
  // Without a log nothing outlives a server's process but what its backup has: for benchmarks.
  bool log = true;
  bool synced =
      false;  // acknowledged only after both logs are on disk ("synced"), not "replicated"
  // Versions that may pass between fetch and push; 0: in rounds, which is synchronous SGD.
  std::uint64_t staleness_bound = std::numeric_limits<std::uint64_t>::max();
  bool scale_by_staleness = false;
  std::uint32_t replicas = 1;  // that are expected; in rounds all of them begin together
  std::uint64_t client_lease_ms = 3000;
  std::uint64_t server_lease_ms = 2000;
  // Samples, in the order of an epoch.
  std::uint64_t batch = 1;    // of one mini-batch of a replica
  std::uint64_t portion = 1;  // that a replica leases at a time; a multiple of the batch
  std::uint64_t epochs = 0;   // 0: as many as `samples` needs
  std::uint64_t samples = 0;  // of the whole training; 0: as many as epochs have
  bool drop_last = false;     // a last batch of an epoch that isn't full is left out
  // Warm start (Dean et al. 2012, section 4.1): the first replica trains alone until so many
  // samples are done, or so many seconds over, whichever comes first; 0: not asked for.
  std::uint64_t warm_samples = 0;
  double warm_seconds = 0;
  // Says where the ledger of samples begins, for a job that goes on from a checkpoint.
  std::uint64_t first_epoch = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> consumed;  // of that epoch: [begin, end)
  bool operator==(const JobPlan&) const = default;
};

// This is what is known when the network and the data have been looked at.
struct JobDescription {
  std::string model;                // for people
  std::vector<VectorSpec> vectors;  // with their rules
  std::uint64_t epoch_samples = 0;  // of the training data
  std::string data;                 // a fingerprint of the data's order
  bool operator==(const JobDescription&) const = default;
};

}  // namespace convoy::server
