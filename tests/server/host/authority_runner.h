// An authority that runs, with a store in memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "server/replication/authority.h"
#include "tests/server/host/paced_time.h"

namespace convoy::server::host::test {

class AuthorityRunner {
 public:
  using Deliver = std::function<void(replication::Message)>;

  // `deliver` is called with a lock held, and must not call back.
  AuthorityRunner(std::chrono::milliseconds lease, Deliver deliver, const PacedTime& time)
      : deliver_(std::move(deliver)), lease_(lease), time_(time) {
    restart();
    thread_ = std::thread([this] { run(); });
  }
  ~AuthorityRunner() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  // Another one in its place, which knows nothing but what is in the store.
  void restart() {
    const std::lock_guard lock(mutex_);
    replication::AuthorityOptions options;
    options.lease = replication::milliseconds(static_cast<std::uint64_t>(lease_.count()));
    options.fresh = options.lease / 3;
    options.retry_interval = options.lease / 4;
    authority_.emplace(now(), ++life_, options, rules_);
  }
  void receive(const replication::Message& message) {
    const std::lock_guard lock(mutex_);
    execute(authority_->receive(now(), message));
  }
  replication::Configuration configuration(std::uint32_t shard = 0) const {
    const std::lock_guard lock(mutex_);
    const auto found = store_.find(shard);
    return found == store_.end() ? replication::Configuration{shard, 0, {}, {}} : found->second;
  }
  void accept_loss(std::uint32_t shard) {
    const std::lock_guard lock(mutex_);
    execute(authority_->accept_loss(now(), shard));
  }

 private:
  replication::Time now() const {
    return static_cast<replication::Time>(
        std::chrono::duration_cast<std::chrono::microseconds>(time_.now().time_since_epoch())
            .count());
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      execute(authority_->tick(now()));
      changed_.wait_for(lock, std::chrono::milliseconds(5), [&] { return ends_; });
    }
  }

  void execute(replication::AuthorityEffects effects) {
    for (auto& effect : effects) {
      if (auto* send = std::get_if<replication::Send>(&effect)) {
        deliver_(std::move(send->message));
        continue;
      }
      std::uint32_t shard = 0;
      if (const auto* read = std::get_if<replication::ReadStore>(&effect)) {
        shard = read->shard;
      } else {
        const auto& next = std::get<replication::SetStore>(effect).next;
        shard = next.shard;
        auto& stored =
            store_.try_emplace(shard, replication::Configuration{shard, 0, {}, {}}).first->second;
        if (stored.epoch + 1 == next.epoch) stored = next;
      }
      const auto& stored =
          store_.try_emplace(shard, replication::Configuration{shard, 0, {}, {}}).first->second;
      execute(authority_->stored(now(), shard, {true, stored}));
    }
  }

  const Deliver deliver_;
  const std::chrono::milliseconds lease_;
  const PacedTime& time_;
  const replication::Rules rules_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::uint64_t life_ = 0;
  std::optional<replication::Authority> authority_;
  std::map<std::uint32_t, replication::Configuration> store_;
  std::thread thread_;
};

}  // namespace convoy::server::host::test
