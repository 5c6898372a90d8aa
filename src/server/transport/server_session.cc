#include "server/transport/server_session.h"

#include <exception>
#include <utility>

#include "convoy/base/error.h"
#include "server/transport/shared_link.h"

namespace convoy::server::transport {
namespace {

Frame text_frame(FrameType type, const std::string& text) {
  Frame frame;
  frame.header.type = type;
  frame.payload = Message::copy_of(text);
  frame.header.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
  return frame;
}

}  // namespace

// Gives a request's credits back when its message ends.
class ServerSession::Token {
 public:
  Token(std::weak_ptr<ServerSession> session, const Charge& charge)
      : session_(std::move(session)), charge_(charge) {}
  ~Token() {
    const auto session = session_.lock();
    if (!session) return;
    session->returned_small_ += charge_.small;
    session->returned_large_ += charge_.large;
    if (charge_.large > 0) session->wake();
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

 private:
  const std::weak_ptr<ServerSession> session_;
  const Charge charge_;
};

ServerSession::ServerSession(std::shared_ptr<const ServerSettings> settings, Peer peer, Crew& crew)
    : settings_(std::move(settings)),
      crew_(crew),
      peer_(std::make_shared<const Peer>(std::move(peer))),
      inbox_(settings_->limits, settings_->whole) {}

void ServerSession::attach(std::shared_ptr<Link> stream) {
  const std::lock_guard lock(mutex_);
  stream_ = current_ = std::move(stream);
}

void ServerSession::refuse(const std::string& why) {
  std::shared_ptr<Link> stream;
  {
    const std::lock_guard lock(mutex_);
    if (over_ || !refusal_.empty()) return;
    refusal_ = why;
    refused_at_ = Clock::now();
    handshake_.push_back(text_frame(FrameType::refusal, why));
    stream = stream_;
  }
  if (stream) stream->wake();
}

void ServerSession::close() {
  close_shared();
  std::shared_ptr<Link> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (stream) stream->close();
}

bool ServerSession::welcomed() const {
  const std::lock_guard lock(mutex_);
  return welcomed_;
}

bool ServerSession::shares_memory() const {
  const std::lock_guard lock(mutex_);
  return shared_ != nullptr;
}

std::string ServerSession::description() const {
  const std::lock_guard lock(mutex_);
  return peer_->name.empty() ? peer_->address : peer_->name + " at " + peer_->address;
}

std::string ServerSession::refused_because() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::optional<Clock::time_point> ServerSession::refused_at() const {
  const std::lock_guard lock(mutex_);
  return refused_at_;
}

// Whether this thread is leaving the call's handler with an exception.
bool ServerSession::unwinding(std::uint64_t call) const {
  if (std::uncaught_exceptions() == 0) return false;
  const std::lock_guard lock(mutex_);
  return handler_thread_ == std::this_thread::get_id() && handler_call_ == call;
}

bool ServerSession::pending(std::uint64_t call) const {
  const std::lock_guard lock(mutex_);
  return pending_.contains(call);
}

void ServerSession::wake() {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    link = current_;
  }
  if (link) link->wake();
}

void ServerSession::close_shared() {
  std::shared_ptr<Link> shared;
  {
    const std::lock_guard lock(mutex_);
    shared = shared_;
  }
  if (shared) shared->close();
}

// Under the lock.
void ServerSession::collect_returned() {
  const Charge charge{returned_small_.exchange(0), returned_large_.exchange(0)};
  inbox_.give_back(charge);
  outbox_.give_back(charge);
}

bool ServerSession::next_frame(const Link& from, std::size_t max_payload, Frame& frame) {
  Message gone;  // ends after the lock
  const std::lock_guard lock(mutex_);
  if (over_) return false;
  if (&from == stream_.get() && !handshake_.empty()) {
    frame = std::move(handshake_.front());
    handshake_.pop_front();
    return true;
  }
  if (!welcomed_ || !refusal_.empty() || &from != current_.get()) return false;
  collect_returned();
  const bool found = outbox_.next(max_payload, frame, gone);
  has_ready_ = !ready_.empty() && outbox_.queued_bytes() <= settings_->limits.memory;
  return found;
}

bool ServerSession::finished() {
  const std::lock_guard lock(mutex_);
  return !refusal_.empty() && handshake_.empty();
}

void ServerSession::on_hello(const Frame& frame) {
  const Hello hello = Hello::decode(frame.payload);
  const std::string why = difference(settings_->identity, hello);
  if (!why.empty()) return refuse(why);
  Welcome welcome;
  welcome.limits = settings_->limits;
  std::shared_ptr<SharedLink> offered;
  if (settings_->shared_memory && !hello.boot.empty() && hello.boot == settings_->boot) {
    try {
      const auto mapping = SharedLink::create();
      offered = std::make_shared<SharedLink>(SharedLink::Side::server, mapping, weak_from_this());
      welcome.shared_address = mapping->address();
      welcome.shared_bytes = SharedLink::mapping_bytes();
    } catch (const Failure&) {
      // No shared memory left: the stream does as well.
    }
  }
  std::shared_ptr<Link> stream;
  {
    const std::lock_guard lock(mutex_);
    if (welcomed_) throw Failure("a second hello");
    if (over_ || !refusal_.empty()) return;
    welcomed_ = true;
    Peer peer = *peer_;
    peer.name = hello.name;
    peer_ = std::make_shared<const Peer>(std::move(peer));
    outbox_.set_limits(hello.limits);
    offered_ = offered;
    Frame answer;
    answer.header.type = FrameType::welcome;
    answer.payload = welcome.encode();
    answer.header.payload_bytes = static_cast<std::uint32_t>(answer.payload.size());
    handshake_.push_back(std::move(answer));
    stream = stream_;
  }
  if (stream) stream->wake();
}

void ServerSession::on_moved(const Frame& frame) {
  const std::lock_guard lock(mutex_);
  if (!offered_) throw Failure("no shared memory was offered");
  const auto offered = std::static_pointer_cast<SharedLink>(std::exchange(offered_, nullptr));
  if (frame.header.status == 0 || over_) return;
  offered->seal();
  shared_ = current_ = offered;
  crew_.start([offered] { offered->run(); });
}

void ServerSession::on_request(Frame&& frame) {
  const std::lock_guard lock(mutex_);
  if (frame.header.type == FrameType::request && pending_.contains(frame.header.call))
    throw Failure("call " + std::to_string(frame.header.call) + " begins twice");
  collect_returned();
  std::optional<Arrived> arrived = inbox_.on_frame(std::move(frame));
  if (!arrived) return;
  pending_.insert(arrived->call);
  ready_.push_back(std::move(*arrived));
  has_ready_ = outbox_.queued_bytes() <= settings_->limits.memory;
}

void ServerSession::on_abandon(std::uint64_t call) {
  Outbox::Removed removed;
  std::optional<Inbox::Dropped> dropped;
  Message waiting;
  {
    const std::lock_guard lock(mutex_);
    collect_returned();
    dropped = inbox_.drop(call);
    if (dropped) outbox_.give_back(dropped->charge);
    pending_.erase(call);
    for (auto one = ready_.begin(); one != ready_.end(); ++one) {
      if (one->call != call) continue;
      inbox_.give_back(one->charge);
      outbox_.give_back(one->charge);
      waiting = std::move(one->message);
      ready_.erase(one);
      break;
    }
    removed = outbox_.remove(call);
    if (removed.state == Outbox::State::begun) {
      Frame frame;
      frame.header.type = FrameType::abandon;
      frame.header.call = call;
      outbox_.push_control(std::move(frame));
    }
  }
}

std::optional<MessageMemory::Run> ServerSession::place(const Link& from,
                                                       const FrameHeader& header) {
  if (header.type != FrameType::request && header.type != FrameType::more) return {};
  const std::lock_guard lock(mutex_);
  if (over_ || !welcomed_ || !refusal_.empty() || &from != current_.get()) return {};
  collect_returned();
  return inbox_.place(header);
}

void ServerSession::on_frame(const Link& from, Frame&& frame) {
  const FrameHeader header = frame.header;
  if (settings_->whole && frame.payload.parts().size() > 1) {
    // From a stream, in pieces: copied here, where no lock is held.
    if (const auto place = this->place(from, header)) {
      frame.payload.copy_to(place->bytes);
      frame.payload = Message::view(place->bytes, place->owner);
    }
  }
  bool welcomed;
  {
    const std::lock_guard lock(mutex_);
    if (over_ || !refusal_.empty()) return;
    welcomed = welcomed_;
    if (&from != current_.get()) throw Failure("a frame beside the shared memory");
    if (welcomed) outbox_.on_given_back({header.released_small, header.released_large});
  }
  if (!welcomed) {
    if (header.type != FrameType::hello) throw Failure("no hello");
    return on_hello(frame);
  }
  switch (header.type) {
    case FrameType::hello:
      throw Failure("a second hello");
    case FrameType::moved:
      on_moved(frame);
      break;
    case FrameType::request:
    case FrameType::more:
      on_request(std::move(frame));
      break;
    case FrameType::abandon:
      on_abandon(header.call);
      break;
    case FrameType::released:
      break;
    default:
      throw Failure("a frame that only servers send");
  }
  if (has_ready_) work();
  wake();
}

void ServerSession::work() {
  working_.run([this] {
    while (true) {
      Arrived arrived;
      {
        const std::lock_guard lock(mutex_);
        has_ready_ = !ready_.empty() && outbox_.queued_bytes() <= settings_->limits.memory;
        if (over_ || !has_ready_) return;
        arrived = std::move(ready_.front());
        ready_.pop_front();
      }
      run_handler(std::move(arrived));
    }
  });
}

void ServerSession::run_handler(Arrived arrived) {
  Request request;
  {
    const std::lock_guard lock(mutex_);
    request.peer = peer_;
    handler_thread_ = std::this_thread::get_id();
    handler_call_ = arrived.call;
  }
  request.method = std::move(arrived.method);
  request.message = std::move(arrived.message);
  request.deadline = arrived.deadline;
  const auto token = std::make_shared<Token>(weak_from_this(), arrived.charge);
  request.message.hold(token);
  const std::uint64_t call = arrived.call;
  try {
    settings_->handler(std::move(request), Reply(weak_from_this(), call, token));
  } catch (const std::exception& e) {
    // Where the handler had answered already, nothing is pending.
    answer(call, kFailed, Message::copy_of(message_of(e)));
  }
  const std::lock_guard lock(mutex_);
  handler_thread_ = {};
}

void ServerSession::answer(std::uint64_t call, std::uint8_t status, Message message) {
  Message too_large;  // ends after the lock: with it the request may, which wakes this session
  {
    const std::lock_guard lock(mutex_);
    if (over_ || pending_.erase(call) == 0) return;
    if (message.size() > outbox_.limits().largest_message) {
      status = kFailed;
      too_large = std::exchange(message,
                                Message::copy_of("the reply has " + std::to_string(message.size()) +
                                                 " bytes; the largest that the client takes is " +
                                                 std::to_string(outbox_.limits().largest_message)));
    }
    Outgoing outgoing;
    outgoing.type = FrameType::reply;
    outgoing.call = call;
    outgoing.status = status;
    outgoing.message = std::move(message);
    outbox_.push(std::move(outgoing));
  }
  wake();
}

void ServerSession::broken(const std::string& why) {
  refuse("this client broke the protocol: " + why);
  close_shared();
}

void ServerSession::ended(const std::string&) {
  std::shared_ptr<Link> shared;
  std::vector<Outgoing> outgoing;
  std::deque<Arrived> ready;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    has_ready_ = false;
    shared = shared_;
    stream_ = current_ = offered_ = nullptr;
    outgoing = outbox_.take_all();
    ready.swap(ready_);
    pending_.clear();
  }
  if (shared) shared->close();
}

}  // namespace convoy::server::transport
