// The sign of life of a client to the coordinator.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "convoy/server/client.h"
#include "server/service/coordinator_calls.h"
#include "server/transport/channel.h"

namespace convoy::server::client {

// Says that the client lives, three times in each lease, and what it has to report: the same report
// under the same number until there is an answer.
//
// Threads: any.
class Heartbeat {
 public:
  Heartbeat(transport::Channel& coordinator, std::uint64_t client, std::chrono::milliseconds lease,
            const convoy::Log& log);
  ~Heartbeat();  // waits for no answer
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void report(const ReplicaReport& report);
  // What has been reported is said at once, rather than with the next sign of life. Returns when
  // the coordinator has answered that, or refused it, the client is lost, or the patience is over;
  // at once where there is nothing to say.
  void say_reports(std::chrono::milliseconds patience);
  // The coordinator, or a shard (found_lost), took the client for dead.
  bool lost() const;
  void found_lost();
  // Says at once that the client lives, and waits for what is said to that, or until the patience
  // is over: whether the client is lost.
  bool find_out_lost(std::chrono::milliseconds patience);
  std::string ended() const;
  // Why the coordinator refuses to go on, which it said in the place of an answer; empty: it
  // hasn't.
  std::string refused() const;
  // The last sign of life has been answered, or `patience` is over; returns those that the
  // coordinator may not have got, in order.
  std::vector<calls::Beat> stop(std::chrono::milliseconds patience);

 private:
  // Outlives this, for answers that come later.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool stopping = false;
    bool asking = false;
    bool lost = false;
    bool at_once = false;          // the next sign of life
    bool reports_at_once = false;  // signs of life, until one takes what is pending
    std::uint64_t said = 0;        // signs of life,
    std::uint64_t heard = 0;       // and the last one that was answered
    std::string ended, refused;
    ReplicaReport pending;
    bool reported = false;      // that there is something in it
    calls::Beat beat;           // the last one
    bool beat_reports = false;  // that there is a report in it
    bool answered = true;
    std::uint64_t last_refused = 0;  // the number of a beat
  };
  void run();
  void say(std::unique_lock<std::mutex>& lock);
  void next_beat();

  transport::Channel& coordinator_;
  const std::uint64_t client_;
  const std::chrono::milliseconds lease_;
  const convoy::Log log_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

// What both say together.
void add(ReplicaReport& to, const ReplicaReport& report);

}  // namespace convoy::server::client
