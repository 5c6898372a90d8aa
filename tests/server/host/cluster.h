// Nodes of one shard in one process, on disks that outlive them, without a network.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "convoy/base/system.h"
#include "server/host/replicate.h"
#include "server/host/shard_host.h"
#include "server/log/simulated_disk.h"
#include "tests/base/patience.h"
#include "tests/server/host/authority_runner.h"
#include "tests/server/state/shard.h"

namespace convoy::server::host::test {

using namespace server::test;
using namespace std::chrono_literals;

// Long enough for any machine; nothing waits so long where all is well.
inline constexpr auto kPatience = convoy::test::patience();

// A disk that somebody else owns.
class BorrowedDisk final : public Disk {
 public:
  explicit BorrowedDisk(Disk& disk) : disk_(disk) {}
  std::vector<std::string> list() const override { return disk_.list(); }
  std::unique_ptr<DiskFile> create(const std::string& name) override { return disk_.create(name); }
  std::unique_ptr<DiskFile> open(const std::string& name) override { return disk_.open(name); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove(const std::string& name) override { disk_.remove(name); }
  void sync_names() override { disk_.sync_names(); }
  std::string path() const override { return disk_.path(); }

 private:
  Disk& disk_;
};

class Cluster {
 public:
  struct Options {
    bool files = true;
    bool synced = false;
    std::uint64_t snapshot_bytes = std::uint64_t{64} << 20;
    std::uint64_t segment_bytes = std::uint64_t{64} << 20;
    std::uint64_t recent_bytes = std::uint64_t{64} << 20;
    std::chrono::milliseconds lease = 2000ms;
  };

  explicit Cluster(Options options)
      : options_(options),
        net_([](const std::string& why) { ADD_FAILURE() << why; }),
        authority_(
            options.lease, [this](replication::Message message) { carry(message); }, time) {}
  Cluster() : Cluster(Options()) {}
  ~Cluster() {
    for (const std::uint64_t node : {1, 2, 3}) kill(node);
    net_.stop();
  }

  void start(std::uint64_t node) {
    ShardHostSettings settings;
    settings.job = "job";
    settings.self = {node, ++life_};
    {
      const std::lock_guard lock(mutex_);
      lives_[node] = life_;
    }
    settings.boot = boot_;
    settings.node.durability =
        options_.synced ? replication::Durability::synced : replication::Durability::replicated;
    settings.node.peer_timeout =
        replication::milliseconds(static_cast<std::uint64_t>(options_.lease.count()));
    settings.snapshot_bytes = options_.snapshot_bytes;
    settings.segment_bytes = options_.segment_bytes;
    settings.recent_bytes = options_.recent_bytes;
    settings.time = [this] {
      ++looks_;
      return time.now();
    };
    settings.log = convoy::Log("node " + std::to_string(node), level_);
    const auto self = std::make_shared<std::weak_ptr<ShardHost>>();
    HostLinks links;
    links.to_node = [this, self, self_node = node](std::uint64_t to,
                                                   std::vector<replication::Message> messages,
                                                   std::function<void(bool)> arrived) {
      auto request = replicate_request(messages);
      net_.add([this, self, self_node, to, request, arrived] {
        const auto target = find(to);
        if (target) {
          for (const auto& message : decode_replicate(request)) target->receive(message);
          time.hear(way(self_node, to));
        }
        const auto from = self->lock();
        if (from && arrived) arrived(target != nullptr);
      });
    };
    links.to_authority = [this](replication::Message message) {
      net_.add([this, message] {
        authority_.receive(message);
        time.hear(std::to_string(message.from.node));
        expect_signs();
      });
    };
    links.group_to_node = [this, self](std::uint64_t to, const transport::Message& copy,
                                       const std::function<void(bool)>& arrived) {
      net_.add([this, self, to, copy, arrived] {
        const auto target = find(to);
        const Bytes bytes = copy.gather();
        ++offers_;
        const bool kept = !refuse_copies && target && target->keep_copy(calls::decode_copy(bytes));
        copies_ += kept ? 1 : 0;
        const auto from = self->lock();
        if (from && arrived) arrived(kept);
      });
    };
    links.fatal = [this](const std::string& why) {
      const std::lock_guard lock(mutex_);
      fatal_ = why;
    };
    std::unique_ptr<Disk> disk;
    if (options_.files) disk = std::make_unique<BorrowedDisk>(disks_[node]);
    auto host = std::make_shared<ShardHost>(std::move(settings), std::move(disk), std::move(links));
    *self = host;
    {
      const std::lock_guard lock(mutex_);
      hosts_[node] = host;
    }
    expect_signs();
    host->start();
  }
  void kill(std::uint64_t node) {
    if (const auto host = take(node)) host->stop();
  }
  void close(std::uint64_t node) {
    if (const auto host = take(node)) host->close();
  }
  // What was not synced may be lost, of all disks.
  void cut_power() {
    for (const std::uint64_t node : {1, 2, 3}) kill(node);
    boot_ += "'";
    for (auto& [node, disk] : disks_) disk.power_cut(node);
  }

  ShardHost& host(std::uint64_t node) { return *find(node); }
  bool runs(std::uint64_t node) const { return find(node) != nullptr; }
  SimulatedDisk& disk(std::uint64_t node) { return disks_[node]; }
  AuthorityRunner& authority() { return authority_; }
  std::string fatal() const {
    const std::lock_guard lock(mutex_);
    return fatal_;
  }

  template <typename Condition>
  static bool wait(const Condition& condition) {
    const auto until = Clock::now() + kPatience;
    while (!condition()) {
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
  // Until the shard is served by this node and that one, in their newest lives; 0: by nobody else.
  bool wait_served(std::uint64_t primary, std::uint64_t backup) {
    return wait([&] {
      const auto configuration = authority_.configuration();
      const auto host = find(primary);
      return configuration.primary == member(primary) && configuration.backup.node == backup &&
             (backup == 0 || configuration.backup == member(backup)) && host &&
             host->role() == replication::Role::primary;
    });
  }
  bool wait_applied(std::uint64_t node, std::uint64_t index) {
    return wait([&] { return host(node).report().applied >= index; });
  }

  // The answer of one node; nothing within the time given.
  std::optional<calls::Answered> ask(std::uint64_t node, const Bytes& command,
                                     Clock::duration patience = kPatience) {
    auto answered = std::make_shared<std::promise<calls::Answered>>();
    auto answer = answered->get_future();
    const auto target = find(node);
    if (!target) return std::nullopt;
    target->command(std::make_shared<const Bytes>(command),
                    [answered](calls::Answered one) { answered->set_value(std::move(one)); });
    answered.reset();
    if (answer.wait_for(patience) != std::future_status::ready) return std::nullopt;
    try {
      return answer.get();
    } catch (const std::future_error&) {
      return std::nullopt;  // the host was killed
    }
  }
  // Of whoever is primary, asked until it is done, as clients do.
  Reply give(const Bytes& command) {
    const auto until = Clock::now() + kPatience;
    while (Clock::now() < until) {
      for (const std::uint64_t node : {1, 2, 3}) {
        const auto answer = ask(node, command, 300ms);
        if (answer && answer->outcome == calls::Outcome::done) {
          return decode_reply(answer->content.gather());
        }
      }
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "nobody answers";
    return {};
  }
  // A vector of so many elements, of the value 0, and client 1.
  void define(std::uint64_t elements) {
    EXPECT_EQ(give(define_command(definition({slice("w", elements)}))).status, Status::done);
    EXPECT_EQ(give(initialize(0, std::vector<float>(elements))).status, Status::done);
    EXPECT_EQ(give(join_command(1, "replica")).status, Status::done);
  }
  // Push number `sequence` of client 1, with an id of the same number.
  Reply push(std::uint64_t sequence, std::uint64_t elements = 4) {
    return give(
        server::test::push(1, sequence, 0, std::vector<float>(elements, -1), 1, 0, {sequence}));
  }
  // That pushes 1 to `last` are in the state of this node, each once.
  void expect_pushed(std::uint64_t node, std::uint64_t last) {
    Ledger expected;
    for (std::uint64_t id = 1; id <= last; ++id) expected.add(id);
    EXPECT_EQ(host(node).report().ledger, expected);
  }
  std::vector<float> fetched(std::uint64_t node, std::uint64_t elements) {
    calls::FetchRequest request;
    request.ranges = {{0, 0, 0, elements}};
    const auto answer = host(node).fetch(request);
    EXPECT_EQ(answer.outcome, calls::Outcome::done) << answer.reason;
    const auto values = calls::decode_fetched(answer.content).values;
    std::vector<float> result(values.size() / 4);
    values.copy_to(std::as_writable_bytes(std::span(result)));
    return result;
  }

  std::uint64_t copies() const { return copies_; }  // of groups, that arrived
  std::uint64_t offers() const { return offers_; }  // of groups, that were sent
  std::uint64_t looks() const { return looks_; }    // at the time, by all nodes
  std::atomic<bool> refuse_copies = false;

  PacedTime time;

 private:
  // In its newest life.
  replication::Member member(std::uint64_t node) const {
    const std::lock_guard lock(mutex_);
    const auto life = lives_.find(node);
    return {node, life == lives_.end() ? 0 : life->second};
  }
  std::shared_ptr<ShardHost> find(std::uint64_t node) const {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(node);
    return found == hosts_.end() ? nullptr : found->second;
  }
  std::shared_ptr<ShardHost> take(std::uint64_t node) {
    std::shared_ptr<ShardHost> taken;
    {
      const std::lock_guard lock(mutex_);
      auto found = hosts_.extract(node);
      if (found) taken = found.mapped();
    }
    expect_signs();
    return taken;
  }
  // Those that live say so to the authority, and primary and backup to each other.
  void expect_signs() {
    const auto configuration = authority_.configuration();
    for (const std::uint64_t node : {1, 2, 3}) {
      time.expect(std::to_string(node), find(node) != nullptr);
      for (const std::uint64_t other : {1, 2, 3}) {
        const auto is_pair = [&](const auto& a, const auto& b) {
          return a == member(node) && b == member(other);
        };
        const auto& [primary, backup] = std::tie(configuration.primary, configuration.backup);
        time.expect(way(node, other), (is_pair(primary, backup) || is_pair(backup, primary)) &&
                                          find(node) && find(other));
      }
    }
  }
  static std::string way(std::uint64_t from, std::uint64_t to) {
    return std::to_string(from) + " to " + std::to_string(to);
  }
  void carry(const replication::Message& message) {
    net_.add([this, message] {
      if (const auto host = find(message.to.node)) host->receive(message);
    });
  }

  const Options options_;
  const convoy::Log::Level level_ = environment("CONVOY_TEST_LINES").empty()
                                        ? convoy::Log::Level::error
                                        : convoy::Log::Level::info;
  std::string boot_ = "boot";
  std::uint64_t life_ = 0;
  std::map<std::uint64_t, std::uint64_t> lives_;  // the last one of each node
  std::map<std::uint64_t, SimulatedDisk> disks_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<ShardHost>> hosts_;
  std::string fatal_;
  std::atomic<std::uint64_t> copies_ = 0, offers_ = 0, looks_ = 0;
  Lane net_;
  AuthorityRunner authority_;
};

}  // namespace convoy::server::host::test
