// Servers with real folders and sockets.
#include "server/host/server.h"

#include <filesystem>

#include "convoy/base/error.h"
#include "tests/server/host/server_fixture.h"

namespace convoy::server::host::test {
namespace {

using calls::Outcome;

TEST(Server, ServesClientsThroughBothWays) {
  for (const bool shared : {false, true}) {
    Servers servers(plan_of(1));
    servers.shared_memory = shared;
    servers.start(1);
    EXPECT_EQ(servers.servers[1]->shards(), std::vector<std::uint32_t>{0});
    servers.define(300'000);
    EXPECT_EQ(servers.push(1, 300'000).status, Status::done);
    EXPECT_EQ(servers.push(2, 300'000).status, Status::done);
    EXPECT_EQ(servers.fetched(300'000), std::vector<float>(300'000, 2));
    EXPECT_EQ(servers.channel(1).shares_memory(), shared);
    servers.expect_pushed(2);
    const auto report = servers.report(1);
    EXPECT_EQ(report.server, 1u);
    EXPECT_EQ(report.clients.size(), 1u);
    EXPECT_EQ(report.clients[0].client.pushes, 2u);
  }
}

TEST(Server, NothingAcknowledgedIsLostWhenOneIsKilled) {
  JobPlan plan = plan_of(2);
  plan.shards = 2;
  Servers servers(plan);
  servers.start(1);
  servers.start(2);
  for (const std::uint32_t shard : {0, 1}) {
    servers.define(1000, shard);
    ASSERT_TRUE(servers.wait_backup(shard));
  }
  for (std::uint64_t i = 1; i <= 20; ++i) {
    for (const std::uint32_t shard : {0, 1}) {
      EXPECT_EQ(servers.push(i, 1000, shard).status, Status::done);
    }
  }
  servers.kill(1);
  for (const std::uint32_t shard : {0, 1}) {
    EXPECT_EQ(servers.push(21, 1000, shard).status, Status::done);
    servers.expect_pushed(21, shard);
    EXPECT_EQ(servers.fetched(1000, shard), std::vector<float>(1000, 21));
  }
  servers.start(1);
  for (const std::uint32_t shard : {0, 1}) ASSERT_TRUE(servers.wait_backup(shard));
  for (const std::uint32_t shard : {0, 1}) {
    EXPECT_EQ(servers.push(22, 1000, shard).status, Status::done);
  }
  servers.kill(2);
  for (const std::uint32_t shard : {0, 1}) {
    EXPECT_EQ(servers.push(23, 1000, shard).status, Status::done);
    servers.expect_pushed(23, shard);
  }
}

TEST(Server, LargeCommandsReachTheBackupAndALateOne) {
  constexpr std::uint64_t kElements = 3'000'000;
  Servers servers(plan_of(2));
  servers.snapshot_bytes = 30'000'000;
  servers.segment_bytes = 1'000'000;
  servers.start(1);
  servers.define(kElements);
  servers.start(2);
  ASSERT_TRUE(servers.wait_backup());
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(servers.push(i, kElements).status, Status::done);
  servers.kill(2);
  // 12 MB each, so that the log is cut behind the snapshots of some of them.
  for (std::uint64_t i = 4; i <= 12; ++i) {
    EXPECT_EQ(servers.push(i, kElements).status, Status::done);
    std::this_thread::sleep_for(20ms);
  }
  servers.start(2);
  ASSERT_TRUE(servers.wait_backup());
  servers.kill(1);
  EXPECT_EQ(servers.push(13, kElements).status, Status::done);
  servers.expect_pushed(13);
  EXPECT_EQ(servers.fetched(kElements), std::vector<float>(kElements, 13));
}

TEST(Server, WhatIsOnTheDiskOutlivesAll) {
  for (const bool in_order : {true, false}) {
    Servers servers(plan_of(2));
    servers.start(1);
    servers.start(2);
    servers.define(100);
    ASSERT_TRUE(servers.wait_backup());
    for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(servers.push(i, 100).status, Status::done);
    for (const std::uint64_t number : {1, 2}) {
      in_order ? servers.close(number) : servers.kill(number);
    }
    servers.start(1);
    servers.start(2);
    EXPECT_EQ(servers.push(11, 100).status, Status::done);
    servers.expect_pushed(11);
  }
}

TEST(Server, WithoutFilesItsBackupKeepsAll) {
  Servers servers(plan_of(2, false));
  servers.start(1);
  servers.start(2);
  servers.define(100);
  ASSERT_TRUE(servers.wait_backup());
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(servers.push(i, 100).status, Status::done);
  servers.kill(1);
  EXPECT_EQ(servers.push(11, 100).status, Status::done);
  servers.expect_pushed(11);
  EXPECT_FALSE(std::filesystem::exists(servers.scratch.path("server-1")));
}

TEST(Server, FindsACoordinatorThatWasStartedAgain) {
  Servers servers(plan_of(2));
  servers.start(1);
  servers.start(2);
  servers.define(100);
  ASSERT_TRUE(servers.wait_backup());
  servers.coordinator.stop();
  // What is served is served on.
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(servers.push(i, 100).status, Status::done);
  const std::size_t before = servers.coordinator.registrations();
  servers.coordinator.start();
  EXPECT_TRUE(Servers::wait([&] { return servers.coordinator.registrations() >= before + 2; }));
  servers.kill(servers.coordinator.authority().configuration().primary.node);
  EXPECT_EQ(servers.push(6, 100).status, Status::done);
  servers.expect_pushed(6);
}

TEST(Server, HearsThatTheJobHasEndedAndServesOn) {
  Servers servers(plan_of(1));
  servers.start(1);
  servers.define(10);
  servers.coordinator.change([](calls::JobState& state) { state.ended = "all done"; });
  servers.coordinator.stop();
  const std::size_t before = servers.coordinator.registrations();
  servers.coordinator.start();
  EXPECT_TRUE(Servers::wait([&] { return servers.coordinator.registrations() > before; }));
  EXPECT_EQ(servers.push(1, 10).status, Status::done);
}

TEST(Server, AnotherJobAtTheSameCoordinatorIsFatal) {
  Servers servers(plan_of(1));
  servers.start(1);
  servers.expect_fatal = true;
  servers.coordinator.change([](calls::JobState& state) { state.id = std::string(32, 'b'); });
  servers.coordinator.stop();
  servers.coordinator.start();
  EXPECT_TRUE(Servers::wait([&] { return servers.fatal > 0; }));
}

TEST(Server, GarbageIsAnsweredWithALine) {
  Servers servers(plan_of(1));
  servers.start(1);
  servers.define(10);
  std::uint64_t random = 1;
  const auto garbage = [&](std::size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) {
      random = random * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::byte>(random >> 56);
    }
    // Some of it is nearly a request.
    if (size > 6 && random % 2 == 0) {
      std::fill_n(bytes.begin(), 6, std::byte{0});
      bytes[0] = std::byte{1};
    }
    return bytes;
  };
  for (const auto method : {calls::kCommand, calls::kFetch, calls::kCut, calls::kReport,
                            calls::kReplicate, std::string_view("nothing")}) {
    for (std::size_t i = 0; i < 50; ++i) {
      const auto answer = servers.call(1, method, Message::of(garbage(i * 7)));
      if (answer.status == Answer::Status::failed) {
        EXPECT_FALSE(answer.problem.empty());
        EXPECT_EQ(answer.problem.find('\n'), std::string::npos);
        continue;
      }
      // A command that makes no sense has a reply that says so.
      ASSERT_EQ(answer.status, Answer::Status::done) << method << ": " << answer.problem;
      if (method != calls::kCommand) continue;
      const auto answered = calls::decode_answered(answer.message);
      EXPECT_EQ(decode_reply(answered.content.gather()).status, Status::malformed);
    }
  }
  const auto elsewhere = servers.call(1, calls::kReport, calls::report_request(7));
  EXPECT_EQ(elsewhere.problem, "server 1 has no shard 7");
  EXPECT_EQ(servers.call(1, "nothing", {}).problem, "a server has no method 'nothing'");
  EXPECT_EQ(servers.push(1, 10).status, Status::done);
  servers.expect_pushed(1);
}

TEST(Server, PushesThatWaitForACutGoOnWithoutTheirClients) {
  Servers servers(plan_of(1));
  servers.start(1);
  servers.define(100'000);
  EXPECT_EQ(servers.give(join_command(2, "another")).status, Status::done);
  servers.time.stand(true);  // the cut waits until the push has come, and its client is gone
  calls::CutRequest cut;
  cut.cut = 1;
  cut.milliseconds = 3000;
  cut.until = {{1, 0, 0}, {2, 1, 0}};
  auto refused = servers.channel(1).call(std::string(calls::kCut), calls::encode(cut),
                                         Clock::now() + kPatience);
  {
    ChannelSettings settings;
    settings.identity = {servers.servers[1]->job(), ""};
    Channel client(settings, transport::grpc_connector(servers.servers[1]->address()));
    const Bytes push = server::test::push(1, 1, 0, std::vector<float>(100'000, -1), 1, 0, {1});
    const auto request = calls::command_request(0, Message::copy_of(push));
    const auto answer =
        client.call(std::string(calls::kCommand), request, Clock::now() + 200ms).get();
    EXPECT_EQ(answer.status, Answer::Status::timed_out);
  }  // and gone
  servers.time.stand(false);
  EXPECT_EQ(calls::decode_answered(refused.get().message).outcome, Outcome::refused);
  // Its push has been applied or not; the same number again is that one.
  EXPECT_EQ(servers.push(1, 100'000).status, Status::done);
  servers.expect_pushed(1);
  cut.until = {{1, 1, 0}, {2, 0, 0}};
  EXPECT_EQ(servers.ask(1, calls::kCut, calls::encode(cut)).outcome, Outcome::done);
}

std::string problem_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Server, SaysWhatIsWrongWhenItStarts) {
  Servers servers(plan_of(1));
  servers.start(1);
  auto settings = servers.settings(1);
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("is in use by another process"),
            std::string::npos);
  settings.data += "-other";
  settings.listen = servers.servers[1]->address();
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("the address is taken"), std::string::npos);
  settings.listen = "127.0.0.1:0";
  settings.number = 2;
  EXPECT_EQ(problem_of([&] { Server{settings}; }), "there is no server 2: job 'test' has 1 server");
  settings.number = 1;
  settings.listen = "0.0.0.0:0";
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("open to other hosts"), std::string::npos);
  settings = servers.settings(1);
  settings.coordinator = servers.servers[1]->address();  // which is none
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("job"), std::string::npos);
  settings.coordinator = "127.0.0.1:1";
  settings.give_up = [] { return true; };
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("nobody listens there"), std::string::npos);
  settings = servers.settings(1);
  servers.close(1);
  FakeCoordinator another(servers.time, plan_of(1), std::string(32, 'c'));
  settings.coordinator = another.address();
  EXPECT_NE(problem_of([&] { Server{settings}; }).find("belongs to job"), std::string::npos);
}

}  // namespace
}  // namespace convoy::server::host::test
