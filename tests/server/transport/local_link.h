// Connections within this process, so that sessions and channels can be tested, also under the
// thread sanitizer, without gRPC.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/transport/channel.h"
#include "server/transport/server_session.h"

namespace convoy::server::transport::test {

// One end of a stream: everything happens in its own thread, as with a completion queue.
class LocalStream : public Link {
 public:
  explicit LocalStream(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  void connect(const std::shared_ptr<LocalStream>& peer) {
    poke([&] { peer_ = peer; });
  }
  void wake() override {
    poke([this] { awake_ = true; });
  }
  void close() override {
    poke([this] { closed_ = true; });
    if (const auto peer = this->peer()) peer->poke([&] { peer->closed_ = true; });
  }
  void run() {
    while (true) {
      std::deque<Frame> frames;
      bool closed;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return awake_ || closed_ || !arrived_.empty(); });
        awake_ = false;
        frames.swap(arrived_);
        closed = closed_;
      }
      for (Frame& frame : frames) {
        try {
          session_->on_frame(*this, std::move(frame));
        } catch (const std::exception& e) {
          session_->broken(e.what());
        }
      }
      if (session_->has_work()) session_->work();
      Frame frame;
      while (!closed && session_->next_frame(*this, 256 << 10, frame)) {
        frame.payload = Message::copy_of(frame.payload.gather());
        if (const auto peer = this->peer())
          peer->poke([&] { peer->arrived_.push_back(std::move(frame)); });
        frame = {};
        if (session_->has_work()) session_->work();
      }
      if (session_->finished()) close();
      const std::lock_guard lock(mutex_);
      if (closed_ && arrived_.empty()) break;
    }
    session_->ended("the stream was cut");
    session_.reset();
  }

 private:
  std::shared_ptr<LocalStream> peer() {
    const std::lock_guard lock(mutex_);
    return peer_.lock();
  }
  template <class F>
  void poke(F&& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::shared_ptr<Session> session_;
  std::weak_ptr<LocalStream> peer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Frame> arrived_;
  bool awake_ = true;
  bool closed_ = false;
};

// What listens. May be up or down.
class LocalServer {
 public:
  explicit LocalServer(ServerSettings settings)
      : settings_(std::make_shared<const ServerSettings>(std::move(settings))) {}
  ~LocalServer() { stop(); }

  void set_up(bool up) { up_ = up; }
  // Of connections that come from now on.
  void set_limits(const Limits& limits) {
    const std::lock_guard lock(mutex_);
    ServerSettings settings = *settings_;
    settings.limits = limits;
    settings_ = std::make_shared<const ServerSettings>(std::move(settings));
  }
  int connections() const { return connections_; }
  // Cuts all connections.
  void cut() {
    for (const auto& session : sessions()) session->close();
  }
  void stop() {
    up_ = false;
    cut();
    crew_.join();
  }
  // False: nobody listens.
  bool accept(const std::shared_ptr<LocalStream>& client) {
    if (!up_) return false;
    std::shared_ptr<const ServerSettings> settings;
    {
      const std::lock_guard lock(mutex_);
      settings = settings_;
    }
    auto session = std::make_shared<ServerSession>(
        settings, Peer{static_cast<std::uint64_t>(++connections_), "", "here"}, crew_);
    auto stream = std::make_shared<LocalStream>(session);
    stream->connect(client);
    client->connect(stream);
    session->attach(stream);
    {
      const std::lock_guard lock(mutex_);
      sessions_.push_back(session);
    }
    crew_.start([stream] { stream->run(); });
    return true;
  }
  std::vector<std::shared_ptr<ServerSession>> sessions() const {
    const std::lock_guard lock(mutex_);
    return sessions_;
  }

 private:
  std::atomic<bool> up_ = true;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<const ServerSettings> settings_;
  std::vector<std::shared_ptr<ServerSession>> sessions_;
  Crew crew_;
};

class LocalConnector : public Connector {
 public:
  explicit LocalConnector(LocalServer& server) : server_(server) {}
  std::string address() const override { return "local"; }
  void connect(std::shared_ptr<ClientSession> session) override {
    auto stream = std::make_shared<LocalStream>(session);
    session->attach(stream);
    if (!server_.accept(stream)) stream->close();
    crew_.start([stream] { stream->run(); });
  }
  void shut_down() override { crew_.join(); }

 private:
  LocalServer& server_;
  Crew crew_;
};

}  // namespace convoy::server::transport::test
