// The thread in which a coordinator runs the method of a batch optimization.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "convoy/base/log.h"
#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"
#include "convoy/server/client.h"
#include "server/coordinator/core.h"

namespace convoy::server::coordinator {

struct BatchSettings {
  optim::BatchOptions method;
  std::int64_t iterations = 0;  // at which it ends; 0: where the method does
  double l2 = 0;                // see BatchSize
  // Whether the job ends with the method; else an evaluator ends it, when it has the weights.
  bool ends_job = true;
  // The method has found a mistake that another process would find again. Called once at most, by
  // the method's thread, when evaluators were told, or are taken for dead; what there is of the job
  // stays. None: the job ends, and says why.
  std::function<void(const std::string& why)> mistake = {};
  BatchGroups groups;
};

// Dean et al. 2012, section 4.2: it gives shards commands and replicas portions, and sees scalars
// alone. What it asks the core for goes through the core's own thread; shards it reaches as any
// client does.
class MethodThread {
 public:
  // Has this done by the core's thread, and returns.
  using Event = std::function<Effects(Core& core, Time now)>;
  using Post = std::function<void(Event event)>;

  MethodThread(const BatchSettings& settings, ClientOptions client, Post post);
  ~MethodThread() { stop(); }
  MethodThread(const MethodThread&) = delete;
  MethodThread& operator=(const MethodThread&) = delete;

  // By the core's thread.
  void over(const EvaluationOver& evaluation);
  void kept(const BatchKept& kept);

  // Any thread but its own; returns when it has ended. Another process goes on where it was.
  void stop();

 private:
  class Replicas;
  class Memory;
  class Shards;

  void run();
  void optimize(Client& client);
  void end_job(const std::string& why);
  void tell_evaluators(const std::string& why);
  bool wait_for_values();
  // Until `ready`, under the lock. Throws GaveUp once it is to stop.
  void await(const std::function<bool()>& ready);
  void pause(std::chrono::milliseconds time);
  void check_stop();
  // Does this in the core's thread, and returns its result. Throws what it throws.
  template <typename T>
  T ask(std::function<T(Core& core, Time now, Effects& effects)> what);

  const BatchSettings settings_;
  ClientOptions client_;
  const Post post_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::uint64_t next_token_ = 1;
  std::map<std::uint64_t, EvaluationOver> over_;  // by token
  std::uint64_t kept_ = 0;                        // the largest token of what is stored
  std::thread thread_;
};

}  // namespace convoy::server::coordinator
