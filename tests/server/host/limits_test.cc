// Commands of about the size of the largest message.
#include "server/host/replicate.h"
#include "tests/server/host/server_fixture.h"

namespace convoy::server::host::test {
namespace {

using calls::Outcome;

constexpr std::uint64_t kLargest = std::uint64_t{16} << 20;

constexpr std::uint64_t kHead = 6;  // what a request has beside a command

// A request of so many bytes, for shard 0; its command makes no sense.
Message request_of(std::uint64_t bytes) {
  return calls::command_request(0, Message::of(Bytes(bytes - kHead)));
}

Status status_of(const calls::Answered& answered) {
  return decode_reply(answered.content.gather()).status;
}

// To the backup a command is longer than from its client, and the limit is the same.
TEST(ServerLimits, ACommandThatNoBackupCouldTakeIsRefused) {
  Servers servers(plan_of(2));
  servers.largest_message = kLargest;
  servers.start(1);
  servers.start(2);
  servers.define(1000);
  ASSERT_TRUE(servers.wait_backup());
  const std::uint64_t primary = servers.coordinator.authority().configuration().primary.node;
  const auto ask = [&](std::uint64_t bytes) {
    return servers.ask(primary, calls::kCommand, request_of(bytes));
  };
  // Nobody has said what the shard holds: it may take larger ones soon.
  const auto busy = ask(kLargest);
  EXPECT_EQ(busy.outcome, Outcome::busy) << busy.reason;
  EXPECT_NE(busy.reason.find("a command of 16777210 bytes"), std::string::npos) << busy.reason;
  EXPECT_EQ(servers.push(1, 1000).status, Status::done);
  // The largest command that it takes comes to the backup.
  const auto taken = ask(kLargest - kBesideCommand + kHead);
  ASSERT_EQ(taken.outcome, Outcome::done) << taken.reason;
  EXPECT_EQ(status_of(taken), Status::malformed);

  // 64 MiB beside the values.
  const std::uint64_t larger = (std::uint64_t{64} << 20) + 4000;
  servers.coordinator.change([](calls::JobState& state) {
    JobDescription description;
    description.vectors = {{"w", 1000, std::nullopt}};
    state.description = description;
  });
  calls::Answered refused;
  EXPECT_TRUE(Servers::wait([&] {
    refused = servers.ask(primary, calls::kCommand, request_of(larger));
    return refused.outcome == Outcome::refused;
  })) << refused.reason;
  EXPECT_NE(refused.reason.find(" bytes; the largest "), std::string::npos) << refused.reason;
  EXPECT_EQ(status_of(servers.done(calls::kCommand, request_of(kLargest))), Status::malformed);
  EXPECT_EQ(servers.push(2, 1000).status, Status::done);
  servers.kill(servers.coordinator.authority().configuration().primary.node);
  EXPECT_EQ(servers.push(3, 1000).status, Status::done);
  servers.expect_pushed(3);
}

}  // namespace
}  // namespace convoy::server::host::test
