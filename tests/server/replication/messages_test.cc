#include "server/replication/messages.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::server::replication {
namespace {

Command command(std::size_t size) { return std::make_shared<const Bytes>(size, std::byte{7}); }

std::vector<Message> messages() {
  const Configuration pair{3, 9, {1, 11}, {2, 22}};
  const std::vector<Body> bodies = {
      JoinRequest{kReplicationVersion, 4, 8, 5, 30, {{2, 1}, {10, 4}, {30, 8}}},
      JoinAnswer{pair, 4, JoinAnswer::Kind::refused, 12, "the shard has a backup"},
      SnapshotPiece{pair, 4, {7, 40}, 100, 97, Bytes(3, std::byte{1})},
      PieceAck{9, 4, 100, true},
      Append{pair, 4, {7, 40}, 39, {{41, 7, command(3)}, {42, 9, command(0)}}},
      AppendAck{9, 4, 42, 41, 43, true},
      Refusal{Refusal::Kind::unable, 9, 4},
      Report{{5, 6}, 9, Role::backup, true, false, {7, 40}, 39, 42},
      Change{{5, 6}, pair},
      Newest{{5, 6}, pair},
  };
  std::vector<Message> messages;
  for (const Body& body : bodies) messages.push_back({3, {1, 11}, {2, 22}, body});
  return messages;
}

TEST(ReplicationMessages, SayTheSameAfterTheJourney) {
  for (const Message& message : messages()) {
    const Bytes bytes = encode(message);
    const Message back = decode(bytes);
    EXPECT_EQ(back.shard, message.shard);
    EXPECT_EQ(back.from, message.from);
    EXPECT_EQ(back.to, message.to);
    EXPECT_EQ(back.body.index(), message.body.index());
    EXPECT_EQ(encode(back), bytes) << "kind " << message.body.index();
  }
}

TEST(ReplicationMessages, AreRefusedWhenCutShortOrTooLong) {
  for (const Message& message : messages()) {
    Bytes bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(decode(std::span(bytes).first(size)), UsageError)
          << "kind " << message.body.index() << ", " << size << " bytes";
    }
    bytes.push_back(std::byte{0});
    EXPECT_THROW(decode(bytes), UsageError);
  }
}

TEST(ReplicationMessages, WithAnyByteChangedAreReadOrRefused) {
  for (const Message& message : messages()) {
    const Bytes right = encode(message);
    for (std::size_t at = 0; at < right.size(); ++at) {
      for (const int change : {1, 0x80, 0xff}) {
        Bytes wrong = right;
        wrong[at] ^= static_cast<std::byte>(change);
        try {
          decode(wrong);
        } catch (const UsageError&) {  // nothing else may come
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::server::replication
