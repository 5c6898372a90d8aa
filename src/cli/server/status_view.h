// What a job's coordinator says of it, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace convoy::cli {

struct ShardStatus {
  std::uint32_t shard = 0;
  std::uint64_t primary = 0, backup = 0;  // servers; 0: none
  std::uint64_t epoch = 0;
  std::uint64_t applied = 0;  // commands
  std::uint64_t lag = 0;      // of the backup, in commands
  std::uint64_t memory_bytes = 0, log_bytes = 0;
  bool answers = true;
  // Of a batch optimization.
  std::uint64_t vectors = 0, vector_bytes = 0, group_bytes = 0, portions = 0;
};

struct ServerStatus {
  std::uint64_t server = 0;
  std::string address;
  double heard_s = -1;  // ago; negative: never
};

struct ReplicaStatus {
  std::string name;
  std::string role;
  double samples_per_s = 0;
  std::uint64_t samples = 0;
  std::uint64_t staleness = 0;  // of its last push
  std::string portion;          // "3: 512-1024", epoch and samples; empty: none
  double heard_s = 0;           // ago
};

// Portions of a batch optimization, by what became of them.
struct PortionStatus {
  std::uint64_t done = 0, again = 0, copied = 0, unused = 0;
};

struct BatchReplicaStatus {
  std::uint64_t replica = 0;
  std::string name;
  PortionStatus portions;
  double busy_s = 0;
};

struct BatchStatus {
  std::uint64_t iteration = 0;  // iterations done
  bool begun = false;           // what follows of the last one is known
  double loss = 0, gradient_norm = 0, step = 0;
  std::uint64_t evaluations = 0;             // in all
  std::string evaluation;                    // under way: "12.1"; empty: none yet
  std::uint64_t portions = 0;                // of each
  PortionStatus now;                         // of that
  std::string over;                          // why there is no next iteration; empty while there is
  std::vector<BatchReplicaStatus> replicas;  // that are here
  std::uint64_t gone = 0;                    // replicas that have left, with all that they had
  PortionStatus gone_portions;
  double gone_busy_s = 0;
};

struct JobStatus {
  std::string name, model;
  std::string ended;  // why; empty while it isn't
  std::string phase;  // in words
  bool initialized = false;
  bool backups = false;
  std::uint64_t epoch = 0, epochs = 0;            // counted from 0; 0: no number of epochs
  std::uint64_t samples = 0, samples_wanted = 0;  // 0: not known yet
  std::uint64_t twice = 0, redone = 0, outstanding = 0;
  std::uint64_t replicas_expected = 0;
  double samples_per_s = 0;
  std::vector<ShardStatus> shards;
  std::vector<ServerStatus> servers;
  std::vector<ReplicaStatus> replicas;
  std::vector<std::uint64_t> staleness;  // pushes by staleness (docs/server-format.md)
  std::optional<BatchStatus> batch;      // of a batch optimization
};

// Throws Failure when the text is no status of this version's.
JobStatus read_job_status(const std::string& json);

// Lines for a terminal of so many columns.
std::string status_table(const JobStatus& status, int columns);

// Why `what` isn't ready, or nothing. "coordinator": it has answered. "job": each shard has a
// primary, and the parameters have values. "server-N": it is heard, and each shard of the job has a
// primary and, with backups, one that lacks little: so a server may be taken away when others are
// ready. Throws UsageError for another word.
std::string not_ready(const JobStatus& status, const std::string& what);

}  // namespace convoy::cli
