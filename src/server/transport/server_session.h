// A server's side of one connection, and what its handler sees of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "convoy/base/clock.h"
#include "server/transport/crew.h"
#include "server/transport/hello.h"
#include "server/transport/inbox.h"
#include "server/transport/link.h"
#include "server/transport/outbox.h"

namespace convoy::server::transport {

class ServerSession;

struct Peer {
  std::uint64_t session = 0;  // of this server; never used twice
  std::string name;           // what the client calls itself
  std::string address;
};

struct Request {
  std::shared_ptr<const Peer> peer;
  std::string method;
  // Counts against the client's memory until the reply is sent and all copies are gone (parts that
  // were taken out of it don't count): who has done with a request lets go of it.
  Message message;
  Clock::time_point deadline;  // the client waits no longer
};

// The answer to one request. Whoever has it answers once, from any thread, at any time: after the
// client has gone or given up, or the server has ended, answers go nowhere.
class Reply {
 public:
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply();  // unanswered: tells the client so

  void send(Message message);
  // An error of the handler's own; what it says reaches the client.
  void fail(std::string_view what);
  // Nobody wants the answer any more.
  bool abandoned() const;

 private:
  friend class ServerSession;
  Reply(std::weak_ptr<ServerSession> session, std::uint64_t call, std::shared_ptr<const void> token)
      : session_(std::move(session)), call_(call), token_(std::move(token)) {}
  void finish(std::uint8_t status, Message message);

  std::weak_ptr<ServerSession> session_;
  std::uint64_t call_ = 0;
  std::shared_ptr<const void>
      token_;  // the request's credits, which bound the calls under way, too
};

// Called by threads that receive, for one client never two at once, in the order in which requests
// are complete: long work belongs elsewhere, with the reply. What it throws is the client's answer.
using Handler = std::function<void(Request, Reply)>;

struct ServerSettings {
  Identity identity;
  Limits limits;  // for each client
  Handler handler;
  bool shared_memory = true;
  std::string boot = boot_identity();
  // Where requests of more than Charge::kSmall bytes come as one run of bytes; null: as they are.
  std::shared_ptr<MessageMemory> whole;
};

// Threads: any.
class ServerSession : public Session, public std::enable_shared_from_this<ServerSession> {
 public:
  ServerSession(std::shared_ptr<const ServerSettings> settings, Peer peer, Crew& crew);

  void attach(std::shared_ptr<Link> stream);
  // Tells the client why it is not served; then the connection ends.
  void refuse(const std::string& why);
  void close();
  bool welcomed() const;
  bool shares_memory() const;
  Clock::time_point began() const { return began_; }
  std::string description() const;  // for a log: name and address
  std::string refused_because() const;
  std::optional<Clock::time_point> refused_at() const;

  bool next_frame(const Link& from, std::size_t max_payload, Frame& frame) override;
  bool finished() override;
  void on_frame(const Link& from, Frame&& frame) override;
  std::optional<MessageMemory::Run> place(const Link& from, const FrameHeader& header) override;
  bool has_work() const override { return has_ready_; }
  void work() override;
  void broken(const std::string& why) override;
  void ended(const std::string& why) override;

 private:
  friend class Reply;
  class Token;

  void on_hello(const Frame& frame);
  void on_moved(const Frame& frame);
  void on_request(Frame&& frame);
  void on_abandon(std::uint64_t call);
  void answer(std::uint64_t call, std::uint8_t status, Message message);
  bool pending(std::uint64_t call) const;
  void run_handler(Arrived arrived);
  void collect_returned();
  void wake();
  void close_shared();
  bool unwinding(std::uint64_t call) const;

  const std::shared_ptr<const ServerSettings> settings_;
  Crew& crew_;
  const Clock::time_point began_ = Clock::now();
  // Given back by requests that ended, wherever they did: no lock may be needed there.
  std::atomic<std::uint64_t> returned_small_ = 0, returned_large_ = 0;
  std::atomic<bool> has_ready_ = false;
  Serializer working_;

  mutable std::mutex mutex_;  // of all that follows; nothing foreign runs under it
  std::shared_ptr<const Peer> peer_;
  std::shared_ptr<Link> stream_, current_, shared_;
  std::shared_ptr<Link> offered_;  // until the client says whether it can
  std::deque<Frame> handshake_;
  bool welcomed_ = false;
  bool over_ = false;
  std::string refusal_;
  std::optional<Clock::time_point> refused_at_;
  Outbox outbox_;
  Inbox inbox_;
  std::deque<Arrived> ready_;  // complete, and held back while the client does not take its replies
  std::unordered_set<std::uint64_t> pending_;  // requests without an answer
  std::thread::id handler_thread_;             // while a handler runs,
  std::uint64_t handler_call_ = 0;             // for this call
};

}  // namespace convoy::server::transport
