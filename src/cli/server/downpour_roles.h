// The processes of a job with strategy "downpour" or "sandblaster", as roles.
#pragma once

#include <string>
#include <vector>

#include "cli/job/role.h"
#include "cli/server/job_data.h"

namespace convoy::cli {

struct DownpourSetup {
  std::string program = "convoy";  // as a command on every host
  std::string coordinator;         // "host:port", where it listens
  std::string checkpoint;          // that the job begins with; empty: new parameters
  int servers = 1;
  int replicas = 1;
  int partitions = 1;  // processes of a replica
  int restarts = 3;    // of each replica, and of the evaluator
  int threads = 1;     // of each process of a replica, and of the evaluator
  bool gpus = false;   // replicas and evaluator compute on GPUs, each on those after the others'
  // The recipe's file, and options that change it; empty: the file in the job's data.
  std::vector<std::string> recipe = {};
  bool by_hand = false;            // people start them: each sees its own terminal
  int columns = 0;                 // of the terminal that the evaluator draws on; 0: none
  std::string command;             // that starts the job, for the run's metrics; empty: not said
  std::vector<std::string> hosts;  // empty: this one
  std::string certificates;        // folder; empty: plain connections, on this host alone
  std::vector<std::string> etcd;
  std::string etcd_prefix;       // empty: the coordinator's own choice
  double last_patience_s = 600;  // for the evaluator to end when no replica is left
};

// The coordinator, servers and replicas are services; the job is done with the evaluator. They are
// stopped in this order: evaluator, which writes a checkpoint, replicas, servers, coordinator.
// Without limit, with pauses up to 5 s, coordinator and servers are started again; replicas and
// evaluator as often as `restarts` says, and the job goes on while a replica is left. When
// the last one fails after another was done, the evaluator may find that all is; the job fails if
// it doesn't within `last_patience_s`. A role that exits with 2 ends the job, and so does an
// evaluator that asks to be started again (75).
//
// Host i of the list has servers i + 1, i + 1 + hosts, ...: a shard's backup is on another host
// than its primary where there are several. Throws UsageError for hosts beyond this one without
// certificates, and for a host without a certificate.
std::vector<Role> downpour_roles(const DownpourSetup& setup, const JobData& data);

// An address on loopback for a coordinator that comes back at the same one after a restart: a port
// that is free and that the system gives to nobody who asks for any.
std::string free_address();

// A port for the coordinator on another host, where nothing can be tried: any of the same range.
int likely_port();

}  // namespace convoy::cli
