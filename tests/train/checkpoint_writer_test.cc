// Checkpoints that are written while training goes on: what they hold, what they cost, and what is
// left when that is broken off.
#include "convoy/train/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/export.h"
#include "tests/base/effort.h"
#include "tests/base/patience.h"
#include "tests/train/grid_state.h"

namespace convoy::train::testing_data {
namespace {

State large_state(std::int64_t megabytes, double value = 1) {
  State state;
  state.model["w"] = torch::full({megabytes, 1 << 18}, value, torch::kFloat);
  return state;
}

TEST(CheckpointWriting, HoldsWhatWasWhenItBegan) {
  const Scratch scratch;
  const Truth truth;
  const Grid grid{2, 2};
  World::run_threads(4, [&](World& world) {
    CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path("run")), {});
    EXPECT_FALSE(writer.poll());
    EXPECT_FALSE(writer.finish());
    for (const int step : {1, 2}) {
      State state = truth.state(grid, world.rank());
      std::map<std::string, torch::Tensor> own;  // as training has them
      for (auto& [name, tensor] : state.model) own[name] = tensor = tensor.clone();
      writer.begin(grid_manifest(step, 4), state);
      EXPECT_TRUE(writer.writing());
      for (auto& [name, tensor] : own) tensor.zero_();
      // Updates go on, and ask. Every rank learns of it in the same one.
      std::optional<WrittenCheckpoint> written;
      int updates = 0;
      for (; !written; ++updates) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + world.rank()));
        written = writer.poll();
      }
      EXPECT_FALSE(writer.writing());
      const std::string told = std::to_string(updates);
      EXPECT_EQ(told, world.communicator().broadcast_text(told, 0));
      EXPECT_EQ(written->step, step);
      EXPECT_TRUE(written->asynchronous);
      EXPECT_GE(written->seconds, written->held_s);
      truth.expect_in(read_on(world, written->path, grid), grid, world.rank());
    }
  });
}

// Without memory for a copy it is written at once; the limit is for all ranks of a host.
TEST(CheckpointWriting, TheLimitOfMemoryIsKept) {
  const Scratch scratch;
  const Truth truth;
  std::uint64_t bytes = 0;
  const auto written_with = [&](std::uint64_t memory, int ranks_of_host) {
    WrittenCheckpoint written;
    World::run_threads(1, [&](World& world) {
      written = write_on(world, scratch.path("run"), 1, truth, {},
                         {.memory = memory, .ranks_of_host = ranks_of_host});
      truth.expect_in(read_on(world, written.path, {}), {}, 0);
    });
    return written;
  };
  bytes = written_with(0, 1).copied;
  EXPECT_GT(bytes, std::uint64_t{1} << 20);
  EXPECT_TRUE(written_with(bytes, 1).asynchronous);
  EXPECT_FALSE(written_with(bytes - 1, 1).asynchronous);
  EXPECT_FALSE(written_with(2 * bytes - 1, 2).asynchronous);
  EXPECT_EQ(written_with(2 * bytes, 2).copied, bytes);
}

TEST(CheckpointWriting, AFullDiskIsSaidOnEveryRankAndLeavesTheOneBefore) {
  const Scratch scratch;
  const test::SmallDisk disk(scratch.path("disk"), 6 << 20);
  if (!disk.why_not().empty()) GTEST_SKIP() << "mounting a small disk: " << disk.why_not();
  const std::string folder = scratch.path("disk/checkpoints");
  const Truth small, large(1, 4000);  // 3 MB, and 18
  for (const bool asynchronous : {true, false}) {
    World::run_threads(3, [&](World& world) {
      CheckpointWriter writer(world.communicator(), CheckpointFolder(folder),
                              {.asynchronous = asynchronous});
      const Grid grid{3, 1};
      writer.begin(grid_manifest(1, 3), small.state(grid, world.rank()));
      const std::string usable = writer.finish()->path;
      writer.begin(grid_manifest(2, 3), large.state(grid, world.rank()));
      const std::string said = message_of<Failure>([&] {
        while (!writer.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
      EXPECT_TRUE(
          said.starts_with("checkpoint " + folder + "/step-000000000002 was not written: rank "))
          << said;
      EXPECT_NE(said.find("cannot write " + folder + "/step-000000000002/part-"), std::string::npos)
          << said;
      EXPECT_TRUE(said.ends_with("No space left on device; " + usable + " stays usable")) << said;
      EXPECT_FALSE(writer.writing());
      if (world.rank() == 0) EXPECT_EQ(test::entries(folder), 1u);
      small.expect_in(read_on(world, usable, grid), grid, world.rank());
      // And the next one can be written.
      writer.begin(grid_manifest(3, 3), small.state(grid, world.rank()));
      EXPECT_EQ(writer.finish()->step, 3);
    });
    fs::remove_all(folder);
  }
}

TEST(CheckpointWriting, AFolderThatCannotBeMadeIsSaidOnEveryRank) {
  const Scratch scratch;
  test::spill(scratch.path("file"), "");
  World::run_threads(2, [&](World& world) {
    CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path("file/run")), {});
    const std::string said = message_of<Failure>([&] {
      writer.begin(grid_manifest(1, 2), Truth().state({2, 1}, world.rank()));
    });
    EXPECT_NE(said.find("step-000000000001 was not written: cannot make the folder"),
              std::string::npos)
        << said;
    EXPECT_FALSE(writer.writing());
  });
}

// Given up in the middle (an exception on every rank): nothing of it is left.
TEST(CheckpointWriting, WhatIsGivenUpLeavesNothing) {
  const Scratch scratch;
  const Truth truth(1, 4000);
  EXPECT_THROW(
      World::run_threads(2,
                         [&](World& world) {
                           CheckpointWriter writer(world.communicator(),
                                                   CheckpointFolder(scratch.path()), {});
                           writer.begin(grid_manifest(1, 2), truth.state({2, 1}, world.rank()));
                           throw UsageError("enough");
                         }),
      UsageError);
  EXPECT_EQ(test::entries(scratch.path()), 0u);
}

// A process that writes checkpoints without end, and is killed at any moment.
[[noreturn]] void write_until_killed(const std::string& folder) {
  World::run_threads(1, [&](World& world) {
    CheckpointWriter writer(world.communicator(), CheckpointFolder(folder),
                            {.retention = {.last = 2, .best = false}});
    const std::string newest = CheckpointFolder(folder).newest();
    for (std::int64_t step = newest.empty() ? 1 : open_checkpoint(newest).step + 1;; ++step) {
      writer.begin(grid_manifest(step, 1), large_state(4, static_cast<double>(step)));
      while (!writer.poll()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  ::_exit(1);
}

TEST(CheckpointWriting, KilledAtAnyMomentTheOneBeforeOpens) {
  const Scratch scratch;
  const std::string folder = scratch.path("checkpoints");
  const CheckpointFolder checkpoints(folder);
  std::mt19937 random(std::random_device{}());
  std::int64_t last = 0;
  for (int kill = 0; kill < test::kills(); ++kill) {
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(folder);
    // One that is being written, or already the next.
    const auto partial = [&folder] {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().filename().string().starts_with(".partial-")) return true;
      }
      return false;
    };
    const auto start = Clock::now();
    const auto patient = [&start] { return seconds_since(start) < test::patience_s(); };
    const std::string before = checkpoints.newest();
    while ((checkpoints.newest() == before || !partial()) && patient())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    // Each second kill has to come while one is being written: what a process that stands still has
    // left there is what it leaves when it is killed.
    bool in_the_middle = false;
    do {
      ::kill(child, SIGCONT);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
      ::kill(child, SIGSTOP);
      ::waitpid(child, nullptr, WUNTRACED);
      in_the_middle = partial();
    } while (kill % 2 == 1 && !in_the_middle && patient());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(partial(), in_the_middle);
    EXPECT_TRUE(in_the_middle || kill % 2 == 0);
    const std::string newest = checkpoints.newest();
    const Manifest manifest = verify_checkpoint(newest);
    EXPECT_GT(manifest.step, last);
    last = manifest.step;
    const State state = read_model(newest, manifest);
    EXPECT_TRUE(state.model.at("w").eq(static_cast<double>(last)).all().item<bool>());
  }
}

// As the kernel counts, which may be some pages behind.
class CheckpointMemory : public testing::Test {
 protected:
  static constexpr std::uint64_t kMega = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kState = 96 * kMega;
  // One piece of 8 MiB, and what else a program does.
  static constexpr std::uint64_t kBound = 16 * kMega;

  template <class F>
  std::uint64_t growth(F&& work) {
    forget_peak_memory();
    const std::uint64_t before = resident_memory();
    work();
    return std::max(peak_memory(), before) - before;
  }
  void SetUp() override {
    if (resident_memory() == 0 || !forget_peak_memory()) GTEST_SKIP() << "the kernel doesn't say";
  }
  const Scratch scratch_;
};

TEST_F(CheckpointMemory, ACheckpointCostsOneCopyOrOnePiece) {
  const State state = large_state(96);
  World::run_threads(1, [&](World& world) {
    for (const bool asynchronous : {true, false}) {
      CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch_.path()),
                              {.asynchronous = asynchronous});
      const std::uint64_t bytes = growth([&] {
        writer.begin(grid_manifest(1, 1), state);
        writer.finish();
      });
      EXPECT_LT(bytes, (asynchronous ? kState : 0) + kBound) << asynchronous;
      if (asynchronous) EXPECT_GT(bytes, kState / 2);
      EXPECT_LT(growth([] {}), kBound);  // the copy is gone
    }
  });
}

TEST_F(CheckpointMemory, ReadingCostsWhatIsReadAndExportingOnePiece) {
  World::run_threads(1, [&](World& world) {
    CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch_.path("run")), {});
    writer.begin(grid_manifest(1, 1), large_state(96));
    const std::string checkpoint = writer.finish()->path;
    EXPECT_LT(growth([&] { export_model(checkpoint, scratch_.path("w"), false); }), kBound);
    EXPECT_LT(growth([&] { verify_checkpoint(checkpoint); }), kBound);
    State state;
    EXPECT_LT(growth([&] { state = read_model(checkpoint, open_checkpoint(checkpoint)); }),
              kState + kBound);
    // Straight into a network that is there.
    state = {};
    torch::nn::Module network("network");
    const torch::Tensor w = network.register_buffer("w", torch::zeros({96, 1 << 18}));
    EXPECT_LT(growth([&] {
                read_model(world.communicator(), checkpoint, open_checkpoint(checkpoint),
                           everything, network);
              }),
              kBound);
    EXPECT_TRUE(w.eq(1).all().item<bool>());
    EXPECT_LT(growth([&] {
                read_checkpoint(world.communicator(), checkpoint, open_checkpoint(checkpoint),
                                [](const Slice& whole) {
                                  return even_part(whole.tensor, whole.shape, 1, 1, 4);
                                });
              }),
              kState / 4 + kBound);
  });
}

}  // namespace
}  // namespace convoy::train::testing_data
