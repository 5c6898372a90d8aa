// The parts of a host.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "convoy/base/error.h"
#include "server/host/lane.h"
#include "server/host/peer_feed.h"
#include "server/host/recent_entries.h"
#include "server/host/replicate.h"
#include "server/log/memory_disk.h"
#include "server/log/snapshots.h"
#include "server/service/coordinator_calls.h"

namespace convoy::server::host {
namespace {

using namespace std::chrono_literals;
using replication::Append;
using replication::Entry;

Entry entry(replication::Index index, std::size_t bytes, replication::Epoch epoch = 1) {
  return {index, epoch, std::make_shared<const Bytes>(bytes, static_cast<std::byte>(index))};
}

TEST(Lane, DoesTasksInOrderAndNeverTwoAtOnce) {
  std::vector<int> done;
  std::atomic<int> at_once = 0;
  std::string problem;
  {
    Lane lane([&](const std::string& why) { problem = why; });
    for (int i = 0; i < 1000; ++i) {
      const auto task = [&, i] {
        EXPECT_EQ(++at_once, 1);
        done.push_back(i);
        --at_once;
      };
      if (i % 3 != 0 || !lane.run_if_idle(task)) lane.add(task);
    }
    lane.add([] { throw Failure("broken"); });
    lane.drain();
  }
  ASSERT_EQ(done.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(problem, "broken");
}

TEST(Lane, StopsWithoutWhatHasNotBegun) {
  std::atomic<bool> begun = false, go = false;
  std::atomic<int> done = 0;
  Lane lane([](const std::string&) {});
  lane.add([&] {
    begun = true;
    while (!go) std::this_thread::yield();
    ++done;
  });
  lane.add([&] { ++done; });
  while (!begun) std::this_thread::yield();
  EXPECT_FALSE(lane.run_if_idle([&] { ++done; }));
  std::thread stopper([&] { lane.stop(); });
  go = true;
  stopper.join();
  EXPECT_GE(done, 1);
  lane.add([&] { done = 100; });
  EXPECT_FALSE(lane.run_if_idle([&] { done = 100; }));
  EXPECT_LE(done, 2);
}

TEST(RecentEntries, KeepsTheLastOnes) {
  RecentEntries entries(4);
  EXPECT_EQ(entries.last(), 4u);
  EXPECT_EQ(entries.find(4), nullptr);
  for (replication::Index i = 5; i <= 9; ++i) entries.append(entry(i, 10));
  entries.drop_before(6);
  entries.truncate_after(8);
  EXPECT_EQ(entries.first(), 6u);
  EXPECT_EQ(entries.last(), 8u);
  EXPECT_EQ(entries.bytes(), 30u);
  EXPECT_EQ(entries.find(5), nullptr);
  EXPECT_EQ(entries.find(9), nullptr);
  ASSERT_NE(entries.find(7), nullptr);
  EXPECT_EQ(entries.find(7)->index, 7u);
  entries.truncate_after(5);
  EXPECT_EQ(entries.last(), 5u);
  EXPECT_EQ(entries.first(), 6u);
  EXPECT_EQ(entries.bytes(), 0u);
  entries.append(entry(6, 1));
  EXPECT_EQ(entries.find(6)->command->size(), 1u);
}

PeerFeed::Item commands(replication::Index first, replication::Index last,
                        std::uint64_t session = 1) {
  Append append;
  append.session = session;
  return {{0, {1, 1}, {2, 1}, append}, first, last, 0, 0};
}

TEST(PeerFeed, SendsABatchAtATimeAndNothingTwice) {
  PeerFeed feed;
  const auto now = Clock::now();
  feed.add(commands(1, 2), 100, now);
  ASSERT_TRUE(feed.ready());
  const auto first = feed.take();
  EXPECT_EQ(first.items.size(), 1u);
  EXPECT_FALSE(feed.ready());
  feed.add(commands(3, 3), 100, now);
  feed.add(commands(4, 4), 100, now);
  feed.add(commands(1, 4), 100, now);  // all of them under way
  EXPECT_FALSE(feed.ready());
  feed.ended(first.session, true, now);
  ASSERT_TRUE(feed.ready());
  const auto second = feed.take();
  EXPECT_EQ(second.items.size(), 2u);
  feed.ended(second.session, true, now);
  feed.add(commands(2, 4), 100, now + 1s);  // arrived
  EXPECT_FALSE(feed.ready());
  feed.add(commands(2, 4), 100, now + 10s);  // and got lost behind the transport
  EXPECT_TRUE(feed.ready());
}

TEST(PeerFeed, BeginsAgainAfterALossAndInAnotherSession) {
  PeerFeed feed;
  const auto now = Clock::now();
  feed.add(commands(1, 2), 100, now);
  const auto lost = feed.take();
  feed.add(commands(3, 3), 100, now);
  feed.ended(lost.session, false, now);
  EXPECT_FALSE(feed.ready());  // 3 can't follow what was lost
  feed.add(commands(1, 3), 100, now);
  ASSERT_TRUE(feed.ready());
  const auto again = feed.take();
  feed.add(commands(1, 1, 2), 100, now);
  EXPECT_TRUE(feed.ready());
  const auto other = feed.take();
  EXPECT_EQ(other.items.size(), 1u);
  feed.ended(again.session, false, now);  // of the session before
  feed.add(commands(1, 1, 2), 100, now);
  EXPECT_FALSE(feed.ready());
}

// What is new goes on coming while nothing of it can be used.
TEST(PeerFeed, SendsWhatWasLostAlthoughMoreFollows) {
  PeerFeed feed;
  const auto now = Clock::now();
  feed.add(commands(1, 2), 100, now);
  const auto lost = feed.take();
  feed.ended(lost.session, false, now);
  feed.add(commands(3, 3), 100, now);  // behind it
  const auto behind = feed.take();
  feed.add(commands(1, 2), 100, now);  // that a node on the other side lacks
  feed.add(commands(3, 3), 100, now);
  feed.ended(behind.session, true, now);
  ASSERT_TRUE(feed.ready());
  const auto again = feed.take();
  ASSERT_EQ(again.items.size(), 2u);
  EXPECT_EQ(again.items[0].first, 1u);
  EXPECT_EQ(again.items[1].first, 3u);
  feed.ended(again.session, true, now);
  // Arrived, lost behind the transport, and others every second.
  for (replication::Index i = 4; i <= 9; ++i) {
    const auto later = now + std::chrono::seconds(i - 3);
    feed.add(commands(i, i), 100, later);
    ASSERT_TRUE(feed.ready());
    const auto batch = feed.take();
    feed.add(commands(1, 3), 100, later);
    feed.ended(batch.session, true, later);
    EXPECT_EQ(feed.ready(), i - 3 > 3) << i;
    if (feed.ready()) break;
  }
  EXPECT_TRUE(feed.ready());
}

// A backup that knew of a newer configuration than its primary had dropped them.
TEST(PeerFeed, SendsAgainAtOnceWhatArrivedInVain) {
  PeerFeed feed;
  const auto now = Clock::now();
  const auto pass = [&](replication::Index first, replication::Index last) {
    feed.add(commands(first, last), 100, now);
    const auto batch = feed.take();
    feed.ended(batch.session, true, now);
  };
  pass(1, 4);
  pass(5, 8);
  feed.add(commands(9, 9), 100, now);
  const auto behind = feed.take();
  feed.gap(2, 4);  // of another session
  feed.add(commands(5, 9), 100, now);
  feed.gap(1, 8);  // it has them
  feed.add(commands(5, 9), 100, now);
  feed.ended(behind.session, true, now);
  EXPECT_FALSE(feed.ready());
  feed.gap(1, 4);
  feed.add(commands(5, 9), 100, now);
  ASSERT_TRUE(feed.ready());
  EXPECT_EQ(feed.take().items.size(), 1u);
  feed.add(commands(5, 9), 100, now);  // under way
  EXPECT_FALSE(feed.ready());
}

TEST(PeerFeed, BatchesAreBounded) {
  PeerFeed feed;
  for (replication::Index i = 1; i <= 5; ++i) feed.add(commands(i, i), 4 << 20, Clock::now());
  EXPECT_EQ(feed.take().items.size(), 2u);
}

std::vector<replication::Message> some_messages() {
  Append append;
  append.configuration = {3, 7, {1, 11}, {2, 12}};
  append.session = 5;
  append.before = {6, 41};
  append.committed = 40;
  append.entries = {entry(42, 100'000, 6), entry(43, 10, 6), entry(44, 20'000, 7)};
  replication::AppendAck ack;
  ack.last = 44;
  return {{3, {1, 11}, {2, 12}, append},
          {3, {2, 12}, {1, 11}, ack},
          {3, {1, 11}, {2, 12}, Append{append.configuration, 5, {7, 44}, 44, {}}}};
}

TEST(Replicate, IsTheFormatOfAllCallsWithoutCopies) {
  const auto messages = some_messages();
  const auto request = replicate_request(messages);
  const Bytes bytes = request.gather();
  EXPECT_EQ(bytes, calls::encode(messages).gather());
  const auto& large = *std::get<Append>(messages[0].body).entries[0].command;
  EXPECT_TRUE(std::any_of(request.parts().begin(), request.parts().end(),
                          [&](const auto& part) { return part.bytes.data() == large.data(); }));
  // In pieces of any size.
  for (const std::size_t piece : {std::size_t{7}, std::size_t{1000}, bytes.size()}) {
    transport::Message pieces;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      pieces.append(transport::Message::copy_of(
          std::span<const std::byte>(bytes).subspan(at, std::min(piece, bytes.size() - at))));
    }
    EXPECT_EQ(replicate_request(decode_replicate(pieces)).gather(), bytes);
  }
}

TEST(Replicate, RefusesWhatIsCutShortOrChanged) {
  const Bytes bytes = replicate_request(some_messages()).gather();
  const auto read = [](Bytes some) {
    return decode_replicate(transport::Message::of(std::move(some)));
  };
  for (std::size_t size = 0; size < bytes.size(); size += size < 400 ? 1 : 997) {
    if (size == 2) continue;  // no message at all
    EXPECT_THROW(read({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
                 UsageError)
        << size;
  }
  for (std::size_t at = 0; at < 400; ++at) {
    Bytes changed = bytes;
    changed[at] ^= std::byte{0xff};
    try {
      read(std::move(changed));
    } catch (const UsageError&) {
      // Nothing else may be thrown.
    }
  }
}

TEST(MemoryDisk, HoldsFilesAndSnapshots) {
  const auto disk = memory_disk("(memory)");
  const auto file = disk->create("b");
  const Bytes large(3 << 20, std::byte{7});
  file->append(large, Bytes(5, std::byte{8}));
  EXPECT_EQ(disk->open("b")->size(), large.size() + 5);
  Bytes end(6);
  file->read(large.size() - 1, end);
  EXPECT_EQ(end.front(), std::byte{7});
  EXPECT_EQ(end.back(), std::byte{8});
  EXPECT_THROW(file->read(large.size(), end), Failure);
  file->truncate(1'500'000);
  file->append(Bytes(1, std::byte{9}));
  Bytes two(2);
  file->read(1'499'999, two);
  EXPECT_EQ(two, (Bytes{std::byte{7}, std::byte{9}}));
  EXPECT_THROW(disk->create("b"), Failure);
  EXPECT_THROW(disk->open("a"), Failure);
  disk->rename("b", "a");
  EXPECT_EQ(disk->list(), std::vector<std::string>{"a"});
  disk->remove("a");
  Snapshots snapshots(*disk);
  snapshots.write({3, 1}, [&](SnapshotSink& sink) { sink.write(large); });
  Bytes back(large.size());
  snapshots.read({3, 1}, [&](SnapshotSource& source) { source.read(back); });
  EXPECT_EQ(back, large);
}

}  // namespace
}  // namespace convoy::server::host
