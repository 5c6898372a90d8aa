// What is behind a channel, and stays until its last thread has ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/transport/channel.h"

namespace convoy::server::transport {

// A call's end is decided under the lock by whoever takes it out of the table: a reply, its
// deadline, the connection's end, the channel's. So its callback runs once.
//
// Lock order: this one, then a session's. No lock is held while foreign code or a link runs.
class ChannelCore : public ClientEvents, public std::enable_shared_from_this<ChannelCore> {
 public:
  ChannelCore(ChannelSettings settings, std::unique_ptr<Connector> connector);
  void start();
  void close();  // what ~Channel does; see there

  std::uint64_t call(std::string method, Message request, Clock::time_point deadline,
                     Channel::Callback callback);
  void cancel(std::uint64_t call);
  void wait_connected(Clock::time_point deadline);
  bool shares_memory() const;

  void on_welcome(ClientSession& session) override;
  void on_reply(std::uint64_t call, std::uint8_t status, Message message) override;
  void on_ended(ClientSession& session, const std::string& why, bool refused) override;

  struct Ended {
    Channel::Callback callback;
    Answer answer;
  };
  // A list of callbacks that a thread is going through. Should one of them destroy the channel, the
  // destructor goes through the rest.
  struct Running {
    ChannelCore* core;
    Running* outer;
    std::vector<Ended> ended;
    std::size_t next = 0;

    void go_on();
  };

 private:
  enum class State { idle, connecting, ready };
  struct Call {
    Channel::Callback callback;
    Clock::time_point deadline;
    bool in_session = false;  // of the request, or what is left of it
  };

  void keep();
  void shut_down();
  // All under the lock.
  bool take(std::uint64_t call, Channel::Callback& callback);
  void end(std::uint64_t call, Answer::Status status, const std::string& problem);
  void end_all(Answer::Status status, const std::string& problem);
  // Takes the request, or leaves it: its message must end without the lock. One that is larger than
  // what the server took when this connection began waits for another connection, which tells what
  // the server takes by now.
  void hand_over(Outgoing& request);
  std::vector<Ended> take_due();  // for run(), which must follow
  struct Expired {
    std::vector<std::uint64_t> calls;
    std::vector<Outgoing> unsent;
  };
  Expired expire(Clock::time_point now);
  Clock::time_point next_event() const;
  std::string unreachable() const;
  // All without.
  void run(std::vector<Ended> ended);
  void connect();
  void diagnose();
  // The lists of callbacks that this thread is in: runs what is left of them, and counts them.
  int finish_lists_around();

  const ChannelSettings settings_;
  const std::unique_ptr<Connector> connector_;
  Crew crew_;
  std::thread keeper_;  // deadlines, connections, the end

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::map<std::uint64_t, Call> calls_;
  std::set<std::pair<Clock::time_point, std::uint64_t>> deadlines_;
  std::deque<Outgoing> queued_;  // until there is a connection
  std::vector<Ended> due_;       // callbacks for the keeper to run
  std::shared_ptr<ClientSession> session_;
  State state_ = State::idle;
  Clock::time_point next_attempt_ = Clock::now();
  Clock::time_point attempt_ends_;
  std::uint64_t heard_for_ = 0;    // calls up to this one were there before the connection
  Clock::time_point welcomed_at_;  // the connection that there is,
  Clock::time_point renew_at_ = Clock::time_point::max();  // and when another one takes its place
  bool renewing_ = false;
  Clock::duration pause_;
  std::string problem_;  // of the last attempt
  bool refused_ = false;
  bool diagnose_ = false;
  std::uint64_t last_call_ = 0;
  int sessions_ = 0;  // not ended
  int running_ = 0;   // lists of callbacks that run, or are about to
  bool closing_ = false;
};

}  // namespace convoy::server::transport
