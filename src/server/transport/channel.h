// A client's way to one server: many calls under way at once, over connections that are made again
// when they break.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "convoy/base/clock.h"
#include "server/transport/client_session.h"
#include "server/transport/message.h"

namespace convoy::server::transport {

// How a channel gets its connections: a stream of gRPC (grpc_connector.h), or what a test has.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual std::string address() const = 0;
  // Attaches a new stream to the session and starts it. The session's ended() is called exactly
  // once, later and by another thread, also when no connection comes about. Throws Failure.
  virtual void connect(std::shared_ptr<ClientSession> session) = 0;
  struct Diagnosis {
    std::string problem;     // empty: nothing was found
    bool permanent = false;  // somebody has to change something first
  };
  // Why no connection comes about, for people; may take two seconds.
  virtual Diagnosis diagnose() { return {}; }
  // After all streams have ended: joins its threads. REQUIRES: called by none of them.
  virtual void shut_down() = 0;
};

struct ChannelSettings {
  Identity identity;
  std::string name;  // of this client, for people
  Limits limits;     // of replies
  bool shared_memory = true;
  std::string boot = boot_identity();
  Clock::duration connect_timeout = std::chrono::seconds(5);
};

struct Answer {
  enum class Status {
    done,       // `message` is the reply
    failed,     // the server's handler says no; `problem` is what it said
    refused,    // the server does not serve this client, or, asked anew, no message of this size
    timed_out,  // no answer by the deadline: it may have been done or not
    lost,       // the connection broke under way, or the server dropped the call, since it ends or
                // by a mistake: it may have been done or not
    closed      // the channel was destroyed: it may have been done or not
  };
  Status status = Status::closed;
  Message message;
  std::string problem;  // one line; empty if done
};

class ChannelCore;

// Threads: any may call at once, callbacks included; one destroys it.
class Channel {
 public:
  // Called exactly once unless the call is cancelled, never from within call(), by a thread of the
  // channel, which must not be kept for long: what other calls wait for comes through the same
  // thread. May make calls and destroy the channel; must not throw.
  using Callback = std::function<void(Answer)>;

  // Connects in the background, and again whenever the connection breaks. Throws UsageError,
  // Failure.
  Channel(ChannelSettings settings, std::unique_ptr<Connector> connector);
  // Answers what is under way with `closed`. When this returns, no callback runs any more but the
  // one from which it was called: it waits for those that other threads are in.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for a connection until the deadline. Returns the call's number. Throws UsageError for a
  // method without a name.
  std::uint64_t call(std::string method, Message request, Clock::time_point deadline,
                     Callback callback);
  std::future<Answer> call(std::string method, Message request, Clock::time_point deadline);
  // Nobody waits for this call any more: its callback is not called after this, unless it is being
  // called, and what is not sent of its request stays unsent. It may have been done or not.
  void cancel(std::uint64_t call);

  // Returns once there is a connection. Throws Failure with the reason when the server refuses, or
  // at the deadline.
  void wait_connected(Clock::time_point deadline);
  bool shares_memory() const;  // the connection that there is

 private:
  std::shared_ptr<ChannelCore> core_;
};

}  // namespace convoy::server::transport
