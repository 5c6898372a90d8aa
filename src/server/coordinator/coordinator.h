// A coordinator process: a core with a store, an address and ways to servers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/log.h"
#include "convoy/server/job.h"
#include "server/coordinator/method_thread.h"
#include "server/coordinator/records.h"
#include "server/coordinator/state_store.h"
#include "server/transport/tls.h"

namespace convoy::server::coordinator {

struct CoordinatorSettings {
  JobPlan plan;  // of a job that begins; one that is in the store goes on with its own
  std::string listen = "127.0.0.1:0";
  std::string metrics;  // "host:port" of Prometheus' endpoint; empty: none
  std::optional<transport::TlsFiles> tls;
  std::optional<BatchSettings> batch;  // Sandblaster; else replicas lease samples as in Downpour
  std::vector<std::uint32_t> accept_loss;  // shards: see replication::Rules::successor
  // The process can't go on: another coordinator has begun, or the store is broken. Called once,
  // from any thread; must not destroy the coordinator.
  std::function<void(const std::string& why)> fatal;
  convoy::Log log;
};

// What a store has of a job, if there is one. Throws Failure.
std::optional<JobRecord> stored_job(StateStore& store);

// Threads: any; one destroys it.
class Coordinator {
 public:
  // Begins a term of the store and listens. Throws UsageError, Failure.
  Coordinator(std::shared_ptr<StateStore> store, CoordinatorSettings settings);
  ~Coordinator();  // what was answered survives the process; close() before: a power cut, too
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void close();  // ends in order; what is under way is not answered

  std::string address() const;          // where it listens, with the port
  std::string metrics_address() const;  // empty without one
  std::string job() const;              // its id
  // The job has ended, and everybody who has to know was told or is gone.
  bool over() const;
  std::string status() const;   // JSON
  std::string metrics() const;  // Prometheus' text

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::server::coordinator
