// Requests to shards under way at once, each repeated until a primary has answered it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/client/directory.h"
#include "server/client/traffic.h"
#include "server/service/shard_calls.h"

namespace convoy::server::client {

// One operation of a client's. A request reaches a shard again, unchanged, whenever it isn't known
// whether it did before; what must happen once carries a number by which the shard knows it.
//
// Threads: one. Of what its requests refer to, parts may be being sent still when it ends.
class Exchange {
 public:
  struct Settings {
    std::string what;  // "push": for messages
    std::chrono::milliseconds patience{0};
    Traffic::Kind kind = Traffic::Kind::other;
    std::function<void()> check;  // throws when there is no use in waiting on
    // Why servers may be gone for good: then one that doesn't answer isn't asked again.
    std::function<std::string()> ended;
  };
  Exchange(Directory& directory, Traffic& traffic, Settings settings);
  ~Exchange();  // nobody waits for what is under way
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void ask(std::size_t tag, std::uint32_t shard, std::string_view method,
           transport::Message request);
  bool empty() const { return asks_.empty(); }

  struct Result {
    std::size_t tag = 0;
    std::uint32_t shard = 0;
    calls::Answered answer;  // done or refused
    bool repeated = false;   // an earlier attempt may have been done, too
  };
  // Waits for the next answer, in any order. Throws Failure when one of them takes longer than the
  // patience since it was asked; what `check` throws; UsageError for a server that can't be reached
  // in this way. REQUIRES: !empty()
  Result next();

 private:
  struct Event {
    std::uint64_t ask = 0;
    std::uint64_t attempt = 0;
    transport::Answer answer;
  };
  struct Inbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<Event> events;
  };
  struct Ask {
    std::size_t tag = 0;
    std::uint32_t shard = 0;
    std::string method;
    transport::Message request;
    Clock::time_point began;
    std::uint64_t attempt = 0;
    bool under_way = false;
    Clock::time_point sent;      // if it is
    Clock::time_point next_try;  // if it isn't
    Clock::duration pause{0};
    std::uint64_t server = 0;
    std::shared_ptr<transport::Channel> channel;  // stays while it is under way,
    std::uint64_t call = 0;                       // under this number
    std::string problem;                          // of the last attempt
    Clock::time_point refused_since;              // by all attempts
    bool is_refused = false;
    bool repeated = false;
  };

  void send(std::uint64_t number, Ask& ask);
  void again(Ask& ask, std::string problem, Clock::duration first_pause);
  // Whether it is answered.
  bool take(Ask& ask, Event& event, Result& result);
  bool take_answered(Ask& ask, const Event& event, Result& result);
  void throw_if_ended(const std::string& problem) const;
  void move_on();
  Clock::time_point next_event() const;

  Directory& directory_;
  Traffic& traffic_;
  const Settings settings_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::map<std::uint64_t, Ask> asks_;
  std::uint64_t last_ask_ = 0;
};

}  // namespace convoy::server::client
