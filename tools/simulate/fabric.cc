#include "fabric.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy::simulate {

namespace s4u = simgrid::s4u;

class FabricTransport : public comm::Transport {
 public:
  FabricTransport(Fabric& fabric, int rank) : fabric_(fabric), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(fabric_.hosts_.size()); }
  int world_rank(int rank) const override { return rank; }

  std::unique_ptr<Transport> split(int /*color*/, int /*key*/) override {
    throw UsageError("the ranks of a simulation form one group");
  }
  void post_note(int /*to*/, std::span<const std::byte> /*note*/) override {}
  std::optional<std::pair<int, std::vector<std::byte>>> poll_note() override {
    return std::nullopt;
  }

  bool await_message() override {
    fabric_.news_[static_cast<std::size_t>(rank_)]->acquire();
    return true;
  }

  void abort(const std::string& /*reason*/) noexcept override {
    std::fflush(nullptr);
    std::_Exit(kExitFailure);
  }
  bool abort_ends_process() const override { return true; }

 protected:
  using Handle = std::shared_ptr<Fabric::Side>;

  void* start_send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    return new Handle(fabric_.send(rank_, to, tag, data));
  }
  void* start_receive(int from, std::uint32_t tag, std::span<std::byte> data) override {
    return new Handle(fabric_.receive(from, rank_, tag, data));
  }
  bool poll(void* opaque) override {
    auto* handle = static_cast<Handle*>(opaque);
    if (!(*handle)->done) return false;
    const std::unique_ptr<Handle> owner(handle);
    const Fabric::Side& side = **handle;
    if (side.sent != side.data.size()) {
      throw Failure("a message of " + std::to_string(side.sent) + " bytes arrived where " +
                    std::to_string(side.data.size()) + " were expected");
    }
    return true;
  }
  void cancel(void* opaque) noexcept override {
    const std::unique_ptr<Handle> owner(static_cast<Handle*>(opaque));
    (*owner)->cancelled = true;
  }

 private:
  Fabric& fabric_;
  int rank_;
};

Fabric::Fabric(std::vector<s4u::Host*> hosts) : hosts_(std::move(hosts)) {
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank)
    news_.push_back(s4u::Semaphore::create(0));
}

std::unique_ptr<comm::Transport> Fabric::transport(int rank) {
  return std::make_unique<FabricTransport>(*this, rank);
}

std::shared_ptr<Fabric::Side> Fabric::send(int from, int to, std::uint32_t tag,
                                           std::span<const std::byte> data) {
  const auto message = std::make_shared<Message>();
  message->from = from;
  message->to = to;
  message->bytes = data.size();
  const auto side = std::make_shared<Side>();
  side->data = {const_cast<std::byte*>(data.data()), data.size()};  // only read
  side->sent = data.size();
  if (data.size() <= kEager) {
    if (data.size() < least_empty_) message->copy.assign(data.begin(), data.end());
    side->done = true;
    move(message);
  } else {
    message->sender = side;
  }
  const Key key{from, to, tag};
  Line& line = lines_[key];
  if (line.wanted.empty()) {
    line.sent.push_back(message);
    return side;
  }
  const std::shared_ptr<Side> receiver = line.wanted.front();
  line.wanted.pop_front();
  if (line.wanted.empty()) lines_.erase(key);
  message->receiver = receiver;
  meet(message);
  return side;
}

std::shared_ptr<Fabric::Side> Fabric::receive(int from, int to, std::uint32_t tag,
                                              std::span<std::byte> data) {
  const auto side = std::make_shared<Side>();
  side->data = data;
  const Key key{from, to, tag};
  Line& line = lines_[key];
  if (line.sent.empty()) {
    line.wanted.push_back(side);
    return side;
  }
  const std::shared_ptr<Message> message = line.sent.front();
  line.sent.pop_front();
  if (line.sent.empty()) lines_.erase(key);
  message->receiver = side;
  meet(message);
  return side;
}

void Fabric::meet(const std::shared_ptr<Message>& message) {
  if (message->sender)
    move(message);
  else if (message->arrived)
    deliver(*message);
}

// The first message between two ranks opens their connection.
void Fabric::move(const std::shared_ptr<Message>& message) {
  const auto [at, opened] = connections_.try_emplace({message->from, message->to});
  Connection& connection = at->second;
  connection.moving.push_back(message);
  if (opened) {
    s4u::Host* host = hosts_[static_cast<std::size_t>(message->from)];
    s4u::Actor::create("connection", host, [this, &connection] { carry(connection); })->daemonize();
  }
  connection.work->release();
}

void Fabric::carry(Connection& connection) {
  while (true) {
    connection.work->acquire();
    const std::shared_ptr<Message> message = connection.moving.front();
    connection.moving.pop_front();
    s4u::Comm::sendto(hosts_[static_cast<std::size_t>(message->from)],
                      hosts_[static_cast<std::size_t>(message->to)], message->bytes);
    message->arrived = true;
    if (message->receiver) deliver(*message);
  }
}

void Fabric::deliver(Message& message) {
  Side& receiver = *message.receiver;
  receiver.sent = message.bytes;
  const std::byte* from = message.sender ? message.sender->data.data() : message.copy.data();
  const bool wanted = message.bytes < least_empty_ && !receiver.cancelled &&
                      !(message.sender && message.sender->cancelled);
  const std::size_t fits = std::min(message.bytes, receiver.data.size());
  if (wanted && fits > 0) std::memcpy(receiver.data.data(), from, fits);
  finish(receiver, message.to);
  if (message.sender) finish(*message.sender, message.from);
}

void Fabric::finish(Side& side, int rank) {
  side.done = true;
  news_[static_cast<std::size_t>(rank)]->release();
}

}  // namespace convoy::simulate
