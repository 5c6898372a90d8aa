// Frames of a peer, given to a session. The first byte: bit 0 the side (0 a server's session, 1 a
// client's), bit 1 whether the greeting went well before, bit 2 whether a server puts requests
// together. Then frames: each 32-bit length, then so
// many bytes, a frame as gRPC brings it. Whatever they say, what the session sends is within the
// limits that it was told, and what it takes within its own.
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "server/transport/client_session.h"
#include "server/transport/server_session.h"

namespace {

using namespace convoy::server::transport;  // NOLINT

constexpr std::size_t kMaxPayload = 2 << 20;
constexpr std::uint64_t kMaxAnswers = 4 << 20;  // bytes of replies, of one input

struct Nowhere : Link {
  void wake() override {}
  void close() override { closed = true; }
  bool closed = false;
};

// As server/transport/grpc_bytes.h does it.
Frame frame_of(std::span<const std::byte> bytes) {
  if (bytes.size() < FrameHeader::kBytes) throw convoy::Failure("shorter than its header");
  Frame frame;
  frame.header = FrameHeader::decode(bytes.first<FrameHeader::kBytes>());
  bytes = bytes.subspan(FrameHeader::kBytes);
  if (bytes.size() != std::size_t{frame.header.method_bytes} + frame.header.payload_bytes)
    throw convoy::Failure("another size than it says");
  const auto method = bytes.first(frame.header.method_bytes);
  frame.method.assign(reinterpret_cast<const char*>(method.data()), method.size());
  // In two pieces, as it may come.
  const auto payload = bytes.subspan(method.size());
  frame.payload = Message::copy_of(payload.first(payload.size() / 2));
  frame.payload.append(Message::copy_of(payload.subspan(payload.size() / 2)));
  return frame;
}

Frame greeting(FrameType type, Message payload) {
  Frame frame;
  frame.header.type = type;
  frame.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  frame.payload = std::move(payload);
  return frame;
}

Limits limits() {
  Limits limits;
  limits.largest_message = limits.memory = 1 << 20;
  limits.small_memory = 128 << 10;
  return limits;
}

struct Connection {
  std::shared_ptr<Session> session;
  std::shared_ptr<Nowhere> link = std::make_shared<Nowhere>();

  void take(Frame frame) {
    try {
      session->on_frame(*link, std::move(frame));
    } catch (const convoy::Failure& e) {
      session->broken(e.what());
      link->closed = true;
    }
  }
  // What it sends; a frame can be written and read as it was.
  void drain() {
    if (session->has_work()) session->work();
    Frame sent;
    while (session->next_frame(*link, kMaxPayload, sent)) {
      const auto head = sent.header.encode();
      if (FrameHeader::decode(head).encode() != head) __builtin_trap();
      if (sent.payload.size() != sent.header.payload_bytes) __builtin_trap();
      if (sent.payload.size() > kMaxPayload) __builtin_trap();
      sent = {};
      if (session->has_work()) session->work();
    }
    if (session->finished()) link->closed = true;
  }
};

struct Server {
  explicit Server(bool whole) {
    auto settings = std::make_shared<ServerSettings>();
    settings->identity = {"job", "model"};
    settings->limits = limits();
    settings->shared_memory = false;
    if (whole) settings->whole = std::make_shared<MessageMemory>(1 << 20);
    settings->handler = [this](Request request, Reply reply) {
      held_bytes += request.message.size();
      if (held_bytes > (1 << 20) + (128 << 10)) __builtin_trap();  // more than its limits
      if (request.method == "throw") throw convoy::Failure("not today");
      if (request.method == "drop") return drop();
      if (request.method == "hold") {
        held.emplace_back(std::move(request), std::move(reply));
        return;
      }
      held_bytes -= request.message.size();
      answered += request.message.size();
      reply.send(answered < kMaxAnswers ? std::move(request.message) : Message());
    };
    session = std::make_shared<ServerSession>(std::move(settings), Peer{1, "", "here"}, crew);
  }
  void drop() {
    held.clear();
    held_bytes = 0;
  }

  Crew crew;
  std::deque<std::pair<Request, Reply>> held;
  std::uint64_t held_bytes = 0;
  std::uint64_t answered = 0;
  std::shared_ptr<ServerSession> session;
};

struct Events : ClientEvents {
  void on_welcome(ClientSession&) override { ++welcomes; }
  void on_reply(std::uint64_t, std::uint8_t, Message message) override {
    if (message.size() > (1 << 20)) __builtin_trap();
  }
  void on_ended(ClientSession&, const std::string&, bool) override { ++ends; }
  int welcomes = 0;
  int ends = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool client = (data[0] & 1) != 0, greeted = (data[0] & 2) != 0;
  auto left = std::as_bytes(std::span(data, size)).subspan(1);
  Server server((data[0] & 4) != 0);
  Crew crew;
  const auto events = std::make_shared<Events>();
  Connection peer;
  if (client) {
    Hello hello;
    hello.identity = {"job", "model"};
    hello.limits = limits();
    const auto session = std::make_shared<ClientSession>(hello, events, crew);
    session->attach(peer.link);
    peer.session = session;
    if (greeted) {
      Welcome welcome;
      welcome.limits = limits();
      peer.take(greeting(FrameType::welcome, welcome.encode()));
    }
    for (std::uint64_t call = 1; call <= 3; ++call) {
      convoy::server::transport::Outgoing request;
      request.call = call;
      request.method = "push";
      request.deadline = convoy::Clock::now() + std::chrono::seconds(9);
      request.message = Message::of(std::vector<std::byte>(call * 60'000));
      session->send(request);
    }
  } else {
    server.session->attach(peer.link);
    peer.session = server.session;
    if (greeted) {
      Hello hello;
      hello.identity = {"job", "model"};
      hello.limits = limits();
      peer.take(greeting(FrameType::hello, hello.encode()));
    }
  }
  peer.drain();
  while (left.size() >= 4 && !peer.link->closed) {
    std::uint32_t length;
    std::memcpy(&length, left.data(), 4);
    left = left.subspan(4);
    const auto bytes = left.first(std::min<std::size_t>(length, left.size()));
    left = left.subspan(bytes.size());
    try {
      peer.take(frame_of(bytes));
    } catch (const convoy::Failure& e) {
      peer.session->broken(e.what());
      peer.link->closed = true;
    }
    peer.drain();
  }
  server.drop();
  peer.session->ended("the input is over");
  if (client && events->ends != 1) __builtin_trap();
  peer.session.reset();
  crew.join();
  server.crew.join();
  return 0;
}
