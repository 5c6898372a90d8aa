#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "server/log/simulated_disk.h"
#include "tests/server/log/records.h"

namespace convoy::server {
namespace {

using namespace test;

// One thread writes and cuts, two sync, two read.
TEST(LogThreads, WriteSyncAndRead) {
  constexpr std::uint64_t kRecords = 1500;
  SimulatedDisk disk;
  Log log(disk, {.segment_bytes = 5000});
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> reading[2] = {0, 0};  // nothing before these is read any more
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const std::uint64_t before = log.last_index();
        EXPECT_GE(log.sync(), before);
        std::this_thread::yield();
      }
    });
    threads.emplace_back([&, i] {
      while (!done) {
        reading[i] = log.last_index();
        const std::uint64_t from = log.last_index();
        if (from == 0) continue;
        for (const LogRecord& record : log.read(from, 500)) {
          EXPECT_EQ(record.bytes, content(record.index));
        }
        std::this_thread::yield();
      }
    });
  }
  for (std::uint64_t i = 1; i <= kRecords; ++i) {
    log.append(i, 1, content(i));
    // Behind what the readers read, one of which may have had no core for long.
    if (i % 100 != 0 || i <= 1000) continue;
    const std::uint64_t least = std::min({i - 1000, reading[0].load(), reading[1].load()});
    if (least > 0) log.cut_before(least);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.sync(), kRecords);
  disk.power_cut(1);
  EXPECT_TRUE(holds(Log(disk, {.segment_bytes = 5000}), kRecords));
}

}  // namespace
}  // namespace convoy::server
