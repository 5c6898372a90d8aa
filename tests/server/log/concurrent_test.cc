#include <gtest/gtest.h>

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
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const std::uint64_t before = log.last_index();
        EXPECT_GE(log.sync(), before);
        std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {
      while (!done) {
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
    // Far behind what the readers read.
    if (i % 100 == 0 && i > 1000) log.cut_before(i - 1000);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.sync(), kRecords);
  disk.power_cut(1);
  EXPECT_TRUE(holds(Log(disk, {.segment_bytes = 5000}), kRecords));
}

}  // namespace
}  // namespace convoy::server
