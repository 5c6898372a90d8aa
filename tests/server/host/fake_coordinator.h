// What servers need of a coordinator, and no more.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/service/coordinator_calls.h"
#include "server/transport/listener.h"
#include "tests/base/held_port.h"
#include "tests/base/patience.h"
#include "tests/server/host/authority_runner.h"

namespace convoy::server::host::test {

class FakeCoordinator {
 public:
  // Leases are measured in this time, which outlives it.
  FakeCoordinator(PacedTime& time, JobPlan plan, std::string id = std::string(32, 'a'))
      : time_(time) {
    time_.hurry(false);
    state_.id = std::move(id);
    state_.plan = std::move(plan);
    authority_.emplace(
        std::chrono::milliseconds(state_.plan.server_lease_ms),
        [this](replication::Message message) {
          const std::lock_guard lock(mutex_);
          outbox_[message.to.node].push_back(std::move(message));
        },
        time_);
    listen();
  }
  ~FakeCoordinator() {
    stop();
    authority_.reset();
  }

  const std::string& address() const { return port_.address(); }
  AuthorityRunner& authority() { return *authority_; }
  std::size_t registrations() const { return registrations_; }
  void change(const std::function<void(calls::JobState&)>& how) {
    const std::lock_guard lock(mutex_);
    how(state_);
  }

  // These servers live in that time, too, and say so until they don't live any more.
  void expect(std::uint64_t server, const std::vector<std::uint32_t>& shards, bool lives) {
    for (const std::uint32_t shard : shards) time_.expect(name_of(server, shard), lives);
    {
      const std::lock_guard lock(mutex_);
      if (lives) {
        living_.insert(server);
      } else {
        living_.erase(server);
        newest_.erase(server);
      }
    }
    pace();
  }

  // Away; then another one at the same address that knows nothing but the job and what the store
  // has.
  void stop() { listener_.reset(); }
  void start() {
    {
      const std::lock_guard lock(mutex_);
      state_.servers.clear();
      outbox_.clear();
    }
    authority_->restart();
    listen();
  }

 private:
  static std::string name_of(std::uint64_t server, std::uint32_t shard) {
    return "server " + std::to_string(server) + " shard " + std::to_string(shard);
  }
  // Nobody hears what a primary and others say to each other: they have the machine's own time, as
  // have servers that are processes of their own.
  void pace() {
    std::uint32_t served = 0;
    for (std::uint32_t shard = 0; shard < state_.plan.shards; ++shard) {
      const replication::Member primary = authority_->configuration(shard).primary;
      const std::lock_guard lock(mutex_);
      const auto known = newest_.find(primary.node);
      if (known != newest_.end() && known->second == primary) ++served;
    }
    const std::lock_guard lock(mutex_);
    time_.hurry(living_.size() == 1 || (living_.size() > 1 && served == 0));
  }

  void listen() {
    transport::ListenerSettings settings;
    settings.address = port_.address();
    settings.log = convoy::Log("", convoy::Log::Level::error);
    settings.server.identity = {std::string(calls::kCoordinator), ""};
    settings.server.handler = [this](transport::Request request, transport::Reply reply) {
      reply.send(answer(request));
    };
    // The port may take a moment to be free again.
    const auto until = Clock::now() + convoy::test::patience();
    while (true) {
      try {
        listener_ = std::make_unique<transport::Listener>(settings);
        break;
      } catch (const UsageError&) {
        if (Clock::now() > until) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  }

  transport::Message answer(const transport::Request& request) {
    if (request.method == calls::kAuthority) {
      const auto messages = calls::decode_replication(request.message);
      for (const auto& message : messages) {
        authority_->receive(message);
        time_.hear(name_of(message.from.node, message.shard));
        const std::lock_guard lock(mutex_);
        newest_[message.from.node] = message.from;
      }
      pace();
      const std::lock_guard lock(mutex_);
      return calls::encode(std::exchange(outbox_[messages.at(0).from.node], {}));
    }
    const std::lock_guard lock(mutex_);
    if (request.method == calls::kServer) {
      const calls::ServerHello hello = calls::decode_server_hello(request.message);
      std::erase_if(state_.servers, [&](const auto& one) { return one.server == hello.server; });
      state_.servers.push_back({hello.server, hello.address});
      ++registrations_;
    } else if (request.method != calls::kJob) {
      throw UsageError("no method " + request.method);
    }
    return calls::encode(state_);
  }

  PacedTime& time_;
  std::mutex mutex_;
  calls::JobState state_;
  std::map<std::uint64_t, std::vector<replication::Message>> outbox_;
  std::set<std::uint64_t> living_;
  std::map<std::uint64_t, replication::Member> newest_;  // the last that was heard of each server
  std::atomic<std::size_t> registrations_ = 0;
  std::optional<AuthorityRunner> authority_;
  std::unique_ptr<transport::Listener> listener_;
  const convoy::test::HeldPort port_;
};

}  // namespace convoy::server::host::test
