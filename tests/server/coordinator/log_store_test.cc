#include "server/coordinator/log_store.h"

#include <gtest/gtest.h>

#include <random>

#include "convoy/base/error.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/log/identity.h"
#include "server/log/simulated_disk.h"
#include "tests/base/scratch.h"
#include "tests/server/coordinator/store_checks.h"

namespace convoy::server::coordinator {
namespace {

using WriteKind = Changed::Kind;
using test::bytes;
using test::text;

convoy::Log quiet() { return convoy::Log("", convoy::Log::Level::error); }

TEST(LogStore, KeepsWhatAStoreKeeps) {
  test::check_store([disk = std::make_shared<SimulatedDisk>()] {
    return std::make_unique<LogStore>(disk, quiet());
  });
}

TEST(LogStore, ConfigurationsAdvanceByOne) {
  LogStore store(std::make_shared<SimulatedDisk>(), quiet());
  test::check_configurations(store);
}

TEST(LogStore, LocksItsFolderAndRefusesAnothers) {
  const convoy::test::Scratch scratch;
  const std::string folder = scratch.path("data");
  {
    LogStore store(folder, quiet());
    EXPECT_THROW(LogStore(folder, quiet()), Failure);
    const std::uint64_t term = store.begin();
    EXPECT_EQ(store.compare_and_set(term, "a", 0, bytes("1"), Survives::process).kind,
              WriteKind::done);
  }
  LogStore again(folder, quiet());
  EXPECT_EQ(text(again.read("a")), "1");
  const std::string other = scratch.path("other");
  {
    const auto disk = open_folder(other);
    FolderIdentity(*disk, {"job", 3, "1"}, "boot", server::Durability::synced, 5);
  }
  EXPECT_THROW(LogStore(other, quiet()), UsageError);
}

// Random writes; the process ends at any of them, or the power is cut.
TEST(LogStore, NothingIsLostThatWasSaidToSurvive) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto disk = std::make_shared<SimulatedDisk>();
    LogStoreOptions options;
    options.segment_bytes = 700;
    options.snapshot_bytes = 1500;
    // What was written, change by change, and how many of them survive what.
    std::vector<std::map<std::string, std::string>> states(1);
    std::size_t synced = 0;
    auto store = std::make_unique<LogStore>(disk, quiet(), options);
    std::uint64_t term = store->begin();
    for (int i = 0; i < 150; ++i) {
      const auto what = random() % 20;
      if (what < 2) {
        store.reset();
        std::size_t least = states.size() - 1;
        if (what == 0) {
          disk->power_cut(random());
          least = synced;
        }
        store = std::make_unique<LogStore>(disk, quiet(), options);
        std::map<std::string, std::string> found;
        for (const auto& [key, value] : store->list("")) found[key] = text(value);
        std::size_t at = states.size();
        while (at > least && states[at - 1] != found) --at;
        ASSERT_GT(at, least) << "lost, or a state that never was";
        states.resize(at);
        const std::uint64_t before = std::exchange(term, store->begin());
        ASSERT_GT(term, before);
        synced = states.size() - 1;
        continue;
      }
      std::vector<Write> writes;
      std::map<std::string, std::string> next = states.back();
      for (std::uint64_t count = random() % 4; count > 0; --count) {
        const std::string key(1, static_cast<char>('a' + random() % 6));
        if (std::any_of(writes.begin(), writes.end(), [&](auto& w) { return w.key == key; }))
          continue;
        if (random() % 4 == 0) {
          writes.push_back({key, {}, {}});
          next.erase(key);
        } else {
          next[key] = std::string(random() % 80, static_cast<char>('0' + random() % 10));
          writes.push_back({key, {}, bytes(next[key])});
        }
      }
      const auto survives = random() % 3 == 0 ? Survives::power : Survives::process;
      ASSERT_EQ(store->change(term, writes, survives).kind, WriteKind::done);
      states.push_back(next);
      if (survives == Survives::power) synced = states.size() - 1;
      if (random() % 10 == 0) {
        ASSERT_EQ(store->settle().kind, WriteKind::done);
        synced = states.size() - 1;
      }
    }
  }
}

// A process can end inside of a write: whatever part of the last record is there.
TEST(LogStore, SurvivesAKillAtAnyByte) {
  const auto make = [](SimulatedDisk& disk) {
    LogStore store(std::shared_ptr<Disk>(&disk, [](Disk*) {}), quiet());
    const std::uint64_t term = store.begin();
    EXPECT_EQ(store.compare_and_set(term, "a", 0, bytes("first"), Survives::power).kind,
              WriteKind::done);
    const std::string name = [&] {
      for (const std::string& each : disk.list()) {
        if (each.starts_with("log-")) return each;
      }
      return std::string();
    }();
    const std::size_t before = disk.get(name).size();
    EXPECT_EQ(store.compare_and_set(term, "a", 2, bytes("second"), Survives::process).kind,
              WriteKind::done);
    return std::pair(name, before);
  };
  SimulatedDisk whole;
  const auto [name, before] = make(whole);
  const Bytes all = whole.get(name);
  ASSERT_GT(all.size(), before);
  for (std::size_t size = before; size <= all.size(); ++size) {
    SimulatedDisk disk;
    make(disk);
    Bytes part(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    // The salt is the folder's own: the bytes are this disk's.
    const Bytes own = disk.get(name);
    part.assign(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(size));
    disk.put(name, part);
    LogStore store(std::shared_ptr<Disk>(&disk, [](Disk*) {}), quiet());
    const std::string now = text(store.read("a"));
    EXPECT_TRUE(now == "first" || (size == all.size() && now == "second")) << size << " " << now;
    EXPECT_EQ(store.begin(), 2u);
  }
}

TEST(LogStore, ItsFolderStaysSmall) {
  const auto disk = std::make_shared<SimulatedDisk>();
  LogStoreOptions options;
  options.segment_bytes = 16 << 10;
  options.snapshot_bytes = 64 << 10;
  std::uint64_t most = 0;
  {
    LogStore store(disk, quiet(), options);
    const std::uint64_t term = store.begin();
    for (int i = 0; i < 20'000; ++i) {
      const Write write{"key " + std::to_string(i % 50), {}, bytes(std::string(100, 'x'))};
      ASSERT_EQ(store.change(term, std::span(&write, 1), Survives::process).kind, WriteKind::done);
      most = std::max(most, disk->used());
    }
  }
  EXPECT_LT(most, 300u << 10) << "2.6 MB were written";
  LogStore again(disk, quiet(), options);
  EXPECT_EQ(again.list("").size(), 50u);
}

TEST(LogStore, AFullDiskIsWaitedForAndABrokenOneIsNot) {
  const auto disk = std::make_shared<SimulatedDisk>();
  LogStore store(disk, quiet());
  const std::uint64_t term = store.begin();
  const Write write{"a", {}, bytes("value")};
  disk->set_capacity(disk->used());
  const Changed full = store.change(term, std::span(&write, 1), Survives::power);
  EXPECT_EQ(full.kind, WriteKind::unreached);
  EXPECT_NE(full.problem, "");
  EXPECT_FALSE(store.read("a"));
  disk->set_capacity(UINT64_MAX);
  EXPECT_EQ(store.change(term, std::span(&write, 1), Survives::power).kind, WriteKind::done);
  disk->fail_syncs();
  EXPECT_EQ(store.change(term, std::span(&write, 1), Survives::power).kind, WriteKind::broken);
  EXPECT_EQ(store.change(term, std::span(&write, 1), Survives::process).kind, WriteKind::broken);
  EXPECT_EQ(store.settle().kind, WriteKind::broken);
  EXPECT_THROW(store.begin(), Failure);
}

TEST(LogStore, DamageInTheMiddleIsRefused) {
  const auto disk = std::make_shared<SimulatedDisk>();
  {
    LogStore store(disk, quiet());
    const std::uint64_t term = store.begin();
    for (int i = 0; i < 20; ++i) {
      const Write write{"a", {}, bytes(std::string(100, 'x'))};
      ASSERT_EQ(store.change(term, std::span(&write, 1), Survives::power).kind, WriteKind::done);
    }
  }
  for (const std::string& name : disk->list()) {
    if (name.starts_with("log-")) disk->flip(name, 1000, 4);
  }
  EXPECT_THROW(LogStore(disk, quiet()), Failure);
}

TEST(LogStore, RefusesBytesThatAreNoRecord) {
  const std::vector<Write> writes = {{"a", 1, bytes("x")}, {"b", {}, {}}};
  const Bytes record = encode(7, writes);
  EXPECT_EQ(decode_store_record(record).writes.size(), 2u);
  EXPECT_EQ(decode_store_record(record).term, 7u);
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_THROW(decode_store_record(std::span(record).first(size)), UsageError);
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
