#include "server/transport/client_session.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/transport/shared_link.h"

namespace convoy::server::transport {
namespace {

std::string text_of(const Message& message) {
  constexpr std::size_t kLongest = 4096;
  std::string text(std::min(message.size(), kLongest), '\0');
  message.copy_to(std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

ClientSession::ClientSession(Hello hello, std::weak_ptr<ClientEvents> events, Crew& crew)
    : hello_(std::move(hello)), events_(std::move(events)), crew_(crew), inbox_(hello_.limits) {
  Frame frame;
  frame.header.type = FrameType::hello;
  frame.payload = hello_.encode();
  frame.header.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
  handshake_.push_back(std::move(frame));
}

void ClientSession::attach(std::shared_ptr<Link> stream) {
  const std::lock_guard lock(mutex_);
  stream_ = current_ = std::move(stream);
}

bool ClientSession::send(Outgoing& request) {
  const std::lock_guard lock(mutex_);
  if (over_) return false;
  outbox_.push(std::move(request));
  return true;
}

void ClientSession::wake() {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    link = current_;
  }
  if (link) link->wake();
}

void ClientSession::abandon(std::uint64_t call) {
  Outbox::Removed removed;
  Message received;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    removed = outbox_.remove(call);
    received = inbox_.discard(call);
    if (removed.state == Outbox::State::unsent) return;
    Frame frame;
    frame.header.type = FrameType::abandon;
    frame.header.call = call;
    outbox_.push_control(std::move(frame));
  }
  wake();
}

void ClientSession::close() {
  std::shared_ptr<Link> stream, shared;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
    shared = shared_;
  }
  if (shared) shared->close();
  if (stream) stream->close();
}

std::vector<Outgoing> ClientSession::take_requests() {
  const std::lock_guard lock(mutex_);
  return outbox_.take_all();
}

Limits ClientSession::server_limits() const {
  const std::lock_guard lock(mutex_);
  return outbox_.limits();
}

bool ClientSession::shares_memory() const {
  const std::lock_guard lock(mutex_);
  return shared_ != nullptr && current_ == shared_;
}

bool ClientSession::next_frame(const Link& from, std::size_t max_payload, Frame& frame) {
  Message gone;  // ends after the lock
  const std::lock_guard lock(mutex_);
  if (over_) return false;
  if (&from == stream_.get() && !handshake_.empty()) {
    frame = std::move(handshake_.front());
    handshake_.pop_front();
    return true;
  }
  if (!welcomed_ || &from != current_.get()) return false;
  return outbox_.next(max_payload, frame, gone);
}

void ClientSession::on_welcome(const Frame& frame) {
  const Welcome welcome = Welcome::decode(frame.payload);
  std::shared_ptr<SharedLink> shared;
  if (!welcome.shared_address.empty() && !hello_.boot.empty()) {
    try {
      if (welcome.shared_bytes != SharedLink::mapping_bytes()) throw Failure("another size");
      shared = std::make_shared<SharedLink>(
          SharedLink::Side::client, Mapping::open(welcome.shared_address, welcome.shared_bytes),
          weak_from_this());
    } catch (const Failure&) {
      // Not the same host after all, or another container: the stream does as well.
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (welcomed_) throw Failure("a second welcome");
    welcomed_ = true;
    outbox_.set_limits(welcome.limits);
    if (!welcome.shared_address.empty()) {
      Frame moved;
      moved.header.type = FrameType::moved;
      moved.header.status = shared ? 1 : 0;
      handshake_.push_back(std::move(moved));
    }
    if (shared && !over_) {
      shared_ = current_ = shared;
      crew_.start([shared] { shared->run(); });
    }
  }
  std::shared_ptr<Link> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (stream) stream->wake();
  if (const auto events = events_.lock()) events->on_welcome(*this);
}

void ClientSession::on_message(Frame&& frame) {
  std::optional<Arrived> arrived;
  bool owes = false;
  {
    const std::lock_guard lock(mutex_);
    if (!welcomed_ || over_) throw Failure("a message before the welcome");
    arrived = inbox_.on_frame(std::move(frame));
    if (arrived) {
      // From here on the bytes are the caller's.
      inbox_.give_back(arrived->charge);
      outbox_.give_back(arrived->charge);
      owes = arrived->charge.large > 0;
    }
  }
  if (!arrived) return;
  if (owes) wake();
  if (const auto events = events_.lock())
    events->on_reply(arrived->call, arrived->status, std::move(arrived->message));
}

void ClientSession::on_frame(const Link& from, Frame&& frame) {
  const FrameHeader header = frame.header;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    // Why the server ends it comes through the stream, always.
    if (welcomed_ && &from != current_.get() && header.type != FrameType::refusal)
      throw Failure("a frame beside the shared memory");
    outbox_.on_given_back({header.released_small, header.released_large});
  }
  switch (header.type) {
    case FrameType::welcome:
      return on_welcome(frame);
    case FrameType::refusal: {
      const std::lock_guard lock(mutex_);
      refused_ = true;
      why_ = text_of(frame.payload);
      return;  // the server ends the stream
    }
    case FrameType::reply:
    case FrameType::more:
      on_message(std::move(frame));
      break;
    case FrameType::abandon: {
      std::optional<Inbox::Dropped> dropped;
      {
        const std::lock_guard lock(mutex_);
        dropped = inbox_.drop(header.call);
        if (dropped) outbox_.give_back(dropped->charge);
      }
      break;
    }
    case FrameType::released:
      break;
    default:
      throw Failure("a frame that only clients send");
  }
  wake();  // with the credits that came, or go
}

void ClientSession::broken(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = "the server broke the protocol: " + why;
  }
  close();
}

void ClientSession::ended(const std::string& why) {
  std::shared_ptr<Link> shared;
  std::string reason;
  bool refused;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    shared = shared_;
    stream_ = current_ = nullptr;
    reason = why_.empty() ? why : why_;
    refused = refused_;
  }
  if (shared) shared->close();
  if (const auto events = events_.lock()) events->on_ended(*this, reason, refused);
}

}  // namespace convoy::server::transport
