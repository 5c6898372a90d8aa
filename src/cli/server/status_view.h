// What a job's coordinator says of it, for people.
#pragma once

#include <cstdint>
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
