// Servers with folders and sockets in one process, and a client of them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/system.h"
#include "server/host/server.h"
#include "server/service/shard_calls.h"
#include "server/transport/channel.h"
#include "server/transport/grpc_connector.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/host/fake_coordinator.h"
#include "tests/server/state/shard.h"

namespace convoy::server::host::test {

using namespace server::test;
using namespace std::chrono_literals;
using transport::Answer;
using transport::Channel;
using transport::ChannelSettings;
using transport::Message;

inline constexpr auto kPatience = convoy::test::patience();

inline JobPlan plan_of(std::uint32_t servers, bool files = true) {
  JobPlan plan;
  plan.name = "test";
  plan.servers = servers;
  plan.backups = servers > 1;
  plan.log = files;
  // So long that none of two loses its role because it waits for a core.
  plan.server_lease_ms = 3000;
  return plan;
}

class Servers {
 public:
  explicit Servers(const JobPlan& plan) : coordinator(time, plan) {}

  ServerSettings settings(std::uint64_t number) {
    ServerSettings settings;
    settings.coordinator = coordinator.address();
    settings.number = number;
    settings.data = scratch.path("server-" + std::to_string(number));
    settings.shared_memory = shared_memory;
    settings.largest_message = largest_message;
    settings.snapshot_bytes = snapshot_bytes;
    settings.segment_bytes = segment_bytes;
    settings.time = [this] { return time.now(); };
    settings.ask_again = 10ms;  // each knows at once where another one is that was started
    settings.fatal = [this](const std::string& why) {
      if (!expect_fatal) ADD_FAILURE() << why;
      ++fatal;
    };
    settings.log = convoy::Log("server " + std::to_string(number),
                               environment("CONVOY_TEST_LINES").empty() ? convoy::Log::Level::error
                                                                        : convoy::Log::Level::info);
    return settings;
  }
  void start(std::uint64_t number) {
    channels_.erase(number);
    servers[number] = std::make_unique<Server>(settings(number));
    coordinator.expect(number, servers[number]->shards(), true);
  }
  void kill(std::uint64_t number) {
    channels_.erase(number);
    auto server = servers.extract(number);
    if (!server) return;
    const auto shards = server.mapped()->shards();
    server.mapped().reset();
    coordinator.expect(number, shards, false);
  }
  void close(std::uint64_t number) {
    servers.at(number)->close();
    kill(number);
  }

  Channel& channel(std::uint64_t number) {
    auto& channel = channels_[number];
    if (!channel) {
      ChannelSettings settings;
      settings.identity = {servers.at(number)->job(), ""};
      settings.shared_memory = shared_memory;
      channel = std::make_unique<Channel>(settings,
                                          transport::grpc_connector(servers.at(number)->address()));
    }
    return *channel;
  }
  Answer call(std::uint64_t number, std::string_view method, Message request,
              Clock::duration patience = kPatience) {
    return channel(number)
        .call(std::string(method), std::move(request), Clock::now() + patience)
        .get();
  }
  calls::Answered ask(std::uint64_t number, std::string_view method, Message request,
                      Clock::duration patience = kPatience) {
    const Answer answer = call(number, method, std::move(request), patience);
    if (answer.status != Answer::Status::done) {
      return {calls::Outcome::unknown, 0, answer.problem, {}};
    }
    return calls::decode_answered(answer.message);
  }
  // By whoever is primary, asked again and again.
  calls::Answered done(std::string_view method, const Message& request) {
    const auto until = Clock::now() + kPatience;
    calls::Answered answered;
    do {
      for (const auto& [number, server] : servers) {
        answered = ask(number, method, request, 1s);
        if (answered.outcome == calls::Outcome::done) return answered;
      }
      std::this_thread::sleep_for(5ms);
    } while (Clock::now() < until);
    ADD_FAILURE() << "nobody does it: " << answered.reason;
    return answered;
  }
  Reply give(const Bytes& command, std::uint32_t shard = 0) {
    return decode_reply(
        done(calls::kCommand, calls::command_request(shard, Message::copy_of(command)))
            .content.gather());
  }
  void define(std::uint64_t elements, std::uint32_t shard = 0) {
    EXPECT_EQ(give(define_command(definition({slice("w", elements)})), shard).status, Status::done);
    EXPECT_EQ(give(initialize(0, std::vector<float>(elements)), shard).status, Status::done);
    EXPECT_EQ(give(join_command(1, "replica"), shard).status, Status::done);
  }
  Reply push(std::uint64_t sequence, std::uint64_t elements, std::uint32_t shard = 0) {
    return give(
        server::test::push(1, sequence, 0, std::vector<float>(elements, -1), 1, 0, {sequence}),
        shard);
  }
  std::vector<float> fetched(std::uint64_t elements, std::uint32_t shard = 0) {
    calls::FetchRequest request;
    request.shard = shard;
    request.ranges = {{0, 0, 0, elements}};
    const auto values =
        calls::decode_fetched(done(calls::kFetch, calls::encode(request)).content).values;
    std::vector<float> result(values.size() / 4);
    values.copy_to(std::as_writable_bytes(std::span(result)));
    return result;
  }
  calls::ShardReport report(std::uint64_t number, std::uint32_t shard = 0) {
    return calls::decode_report(ask(number, calls::kReport, calls::report_request(shard)).content);
  }
  void expect_pushed(std::uint64_t last, std::uint32_t shard = 0) {
    Ledger expected;
    for (std::uint64_t id = 1; id <= last; ++id) expected.add(id);
    const std::uint64_t primary = coordinator.authority().configuration(shard).primary.node;
    EXPECT_EQ(report(primary, shard).ledger, expected);
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
  // Until the shard has a backup that lives.
  bool wait_backup(std::uint32_t shard = 0) {
    return wait([&] {
      const auto configuration = coordinator.authority().configuration(shard);
      for (const auto& [number, server] : servers) {
        const auto report = this->report(number, shard);
        const auto role = static_cast<replication::Role>(report.role);
        if (report.epoch != configuration.epoch || !configuration.backup ||
            (role != replication::Role::primary && role != replication::Role::backup)) {
          return false;
        }
      }
      return servers.size() == 2;
    });
  }

  bool shared_memory = true;
  std::uint64_t largest_message = std::uint64_t{1} << 30;
  std::uint64_t snapshot_bytes = std::uint64_t{64} << 20;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::atomic<bool> expect_fatal = false;
  std::atomic<int> fatal = 0;
  convoy::test::Scratch scratch;
  PacedTime time;
  FakeCoordinator coordinator;
  std::map<std::uint64_t, std::unique_ptr<Server>> servers;

 private:
  std::map<std::uint64_t, std::unique_ptr<Channel>> channels_;
};

}  // namespace convoy::server::host::test
