// A client's side of one connection.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/transport/crew.h"
#include "server/transport/hello.h"
#include "server/transport/inbox.h"
#include "server/transport/link.h"
#include "server/transport/outbox.h"

namespace convoy::server::transport {

class ClientSession;

// What a session tells its channel, without holding a lock.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  virtual void on_welcome(ClientSession& session) = 0;
  // Of a call that may be over already.
  virtual void on_reply(std::uint64_t call, std::uint8_t status, Message message) = 0;
  // The last event. Refused: trying again is of no use before somebody changes something.
  virtual void on_ended(ClientSession& session, const std::string& why, bool refused) = 0;
};

// Threads: any.
class ClientSession : public Session, public std::enable_shared_from_this<ClientSession> {
 public:
  // A hello without boot identity asks for no shared memory. The crew must outlive the session's
  // links.
  ClientSession(Hello hello, std::weak_ptr<ClientEvents> events, Crew& crew);

  // Before anything else: the stream that calls this session.
  void attach(std::shared_ptr<Link> stream);
  // Queues a request; wake() afterwards sends it. False, and the request as it was, if the
  // connection has ended.
  bool send(Outgoing& request);
  void wake();
  // Of a call whose answer nobody wants any more. Wakes by itself.
  void abandon(std::uint64_t call);
  void close();
  // After the end: the requests that were not sent, and those of which a part was.
  std::vector<Outgoing> take_requests();

  Limits server_limits() const;
  bool shares_memory() const;

  bool next_frame(const Link& from, std::size_t max_payload, Frame& frame) override;
  bool finished() override { return false; }
  void on_frame(const Link& from, Frame&& frame) override;
  void broken(const std::string& why) override;
  void ended(const std::string& why) override;

 private:
  void on_welcome(const Frame& frame);
  void on_message(Frame&& frame);

  const Hello hello_;
  const std::weak_ptr<ClientEvents> events_;
  Crew& crew_;

  mutable std::mutex mutex_;  // of all that follows; nothing foreign runs under it
  std::shared_ptr<Link> stream_, current_;
  std::shared_ptr<Link> shared_;
  std::deque<Frame> handshake_;  // through the stream, before anything else
  bool welcomed_ = false;
  bool refused_ = false;
  bool over_ = false;
  std::string why_;  // known better than the stream's end tells
  Outbox outbox_;
  Inbox inbox_;
};

}  // namespace convoy::server::transport
