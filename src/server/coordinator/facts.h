// What a coordinator says of its job, for people and programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/server/client.h"
#include "convoy/server/job.h"
#include "server/coordinator/batch_record.h"
#include "server/coordinator/group_journal.h"
#include "server/coordinator/group_ledger.h"
#include "server/replication/types.h"
#include "server/service/shard_calls.h"

namespace convoy::server::coordinator {

struct ShardFacts {
  replication::Configuration configuration;
  std::optional<calls::ShardReport> report;  // the last one
  double age_s = 0;                          // of it
};
struct ServerFacts {
  std::uint64_t server = 0;
  std::string address;
  std::optional<double> heard_s;  // ago; nothing: not since this coordinator began
};
struct ClientFacts {
  std::uint64_t client = 0;
  std::string name;
  ClientRole role = ClientRole::replica;
  std::uint64_t replica = 0;
  std::uint32_t member = 0;
  bool leaving = false;
  double heard_s = 0;                    // ago
  double samples_per_s = 0;              // over the last 10 s
  std::uint64_t samples = 0, steps = 0;  // reported to this coordinator
  std::vector<Portion> leases;           // of the replica, at its first member
};
struct BatchFacts {
  bool begun = false;  // an evaluation has
  EvaluationId evaluation;
  std::uint32_t portions = 0;
  GroupCounts counts;       // of that
  PortionCounts iteration;  // of the iteration that ended last
  PortionCounts all;        // of all that this coordinator has seen
  std::string over;         // why the method has no next iteration; empty while it may have
  std::vector<BatchReplica> replicas;  // that are here, and those of `gone` that left last
  GroupJournal::Gone gone;
  std::uint64_t bytes = 0;         // of requests for portions, and answers, of this coordinator
  std::uint64_t method_bytes = 0;  // of the method's commands and questions to shards, and answers
  BatchStart start;                // of the iteration at hand
};
struct Facts {
  std::string job;    // id
  std::string model;  // of the description
  const JobPlan* plan = nullptr;
  std::uint64_t samples = 0;  // of the whole training, if the plan says how many
  std::uint64_t term = 0;
  double up_s = 0;
  bool described = false, initialized = false, warm = false;
  std::uint64_t epoch_samples = 0;  // as the ledger counts them
  std::optional<BatchFacts> batch;
  std::vector<ShardFacts> shards;
  std::vector<ServerFacts> servers;
  std::vector<ClientFacts> clients;
  std::size_t cuts = 0;
  std::uint64_t handed_portions = 0, left_to_redo = 0;  // held now; samples
  JobProgress progress;
};

inline PortionCounts counts_of(const GroupCounts& counts) {
  return {counts.done, counts.again, counts.copies, counts.unused};
}
inline PortionCounts counts_since(const PortionCounts& a, const PortionCounts& b) {
  return {a.done - b.done, a.again - b.again, a.copies - b.copies, a.unused - b.unused};
}

std::string status_json(const Facts& facts);
// Prometheus' text format, version 0.0.4.
std::string metrics_text(const Facts& facts);

}  // namespace convoy::server::coordinator
