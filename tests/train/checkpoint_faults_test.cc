// Checkpoints of which a rank can't write its part, or takes long to.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/train/checkpoint_writer.h"
#include "tests/base/mounts.h"
#include "tests/base/scratch.h"
#include "tests/train/grid_state.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using comm::World;
using test::message_of;
using test::Scratch;
using testing_data::Grid;
using testing_data::grid_manifest;
using testing_data::read_on;
using testing_data::Truth;

// While it lives, whoever copies a tensor of so many elements calls `hook` before.
class BeforeCopies {
 public:
  BeforeCopies(std::int64_t elements, std::function<void()> hook) {
    wanted() = {elements, std::move(hook)};
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call)
                                       -> std::unique_ptr<at::ObserverContext> {
          const auto inputs = call.inputs();
          if (std::string(call.name()) == "aten::copy_" && inputs.size() > 1 &&
              inputs[1].isTensor() && inputs[1].toTensor().numel() == wanted().elements) {
            wanted().hook();
          }
          return nullptr;
        }).needsInputs(true));
  }
  ~BeforeCopies() { at::removeCallback(handle_); }
  BeforeCopies(const BeforeCopies&) = delete;
  BeforeCopies& operator=(const BeforeCopies&) = delete;

 private:
  struct Wanted {
    std::int64_t elements = 0;
    std::function<void()> hook;
  };
  static Wanted& wanted() {
    static Wanted the_one;
    return the_one;
  }
  at::CallbackHandle handle_;
};

// Runs `body` on ranks as threads. Unless `shared`, rank 1 has another file system at `folder`.
void on_ranks(int ranks, const std::string& folder, bool shared,
              const std::function<void(World&)>& body) {
  fs::create_directories(folder);
  World::run_threads(ranks, [&](World& world) {
    if (shared || world.rank() != 1) {
      if (shared || world.communicator().broadcast_text("", 1) == "mounted") body(world);
      return;
    }
    bool mounted = false;
    test::with_mount(folder.c_str(), "256m", [&] {
      mounted = true;
      world.communicator().broadcast_text("mounted", 1);
      body(world);
    });
    if (!mounted) world.communicator().broadcast_text("not allowed", 1);
  });
}

// Longer than any operation may wait for its peers.
TEST(CheckpointFaults, ARankThatWritesForLongIsNoFailure) {
  const Scratch scratch;
  const Truth truth;
  constexpr std::int64_t kSlow = 777;
  // An operation that is overdue is given three seconds more. No other one comes near to that, on a
  // busy machine either.
  const BeforeCopies slow(kSlow, [] { std::this_thread::sleep_for(std::chrono::seconds(6)); });
  comm::WorldOptions options;
  options.timeout = std::chrono::seconds(2);
  World::run_threads(
      3,
      [&](World& world) {
        CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path()),
                                {.asynchronous = false});
        State state = truth.state({3, 1}, world.rank());
        if (world.rank() == 1) state.rank["slow"] = torch::zeros({kSlow});
        writer.begin(grid_manifest(1, 3), state);
        truth.expect_in(read_on(world, writer.finish()->path, {3, 1}), {3, 1}, world.rank());
      },
      options);
}

// A tensor without data, on one rank. The last of its part: the rest is written, or sent, before.
TEST(CheckpointFaults, WhatOneRankCannotCopyIsSaidOnEveryRank) {
  const Scratch scratch;
  const Truth truth(1, 12000);  // 24 MB, and as much of the optimizer
  for (const bool shared : {true, false}) {
    for (const bool asynchronous : {true, false}) {
      const std::string folder = scratch.path(shared ? "shared" : "local");
      on_ranks(3, folder, shared, [&](World& world) {
        const Grid grid{3, 1};
        CheckpointWriter writer(world.communicator(), CheckpointFolder(folder),
                                {.asynchronous = asynchronous});
        writer.begin(grid_manifest(1, 3), Truth().state(grid, world.rank()));
        const std::string usable = writer.finish()->path;
        State broken = truth.state(grid, world.rank());
        if (world.rank() == 1)
          broken.rank["void"] =
              torch::empty({4}, torch::TensorOptions(torch::kMeta).dtype(torch::kUInt8));
        const std::string said = message_of<Failure>([&] {
          writer.begin(grid_manifest(2, 3), broken);
          writer.finish();
        });
        EXPECT_TRUE(said.starts_with("checkpoint " + folder +
                                     "/step-000000000002 was not written: rank 1 on host "))
            << said;
        EXPECT_NE(said.find("meta"), std::string::npos) << said;
        EXPECT_TRUE(said.ends_with(usable + " stays usable")) << said;
        EXPECT_EQ(said, world.communicator().broadcast_text(said, 0));
        EXPECT_FALSE(writer.writing());
        if (world.rank() == 0) {
          EXPECT_EQ(test::entries(folder), 1u);
        }
        // And the next one can be written.
        writer.begin(grid_manifest(3, 3), Truth().state(grid, world.rank()));
        EXPECT_EQ(writer.finish()->step, 3);
      });
      fs::remove_all(folder);
    }
  }
}

// Last of all, when everything is written: whoever else has the folder by then keeps it.
TEST(CheckpointFaults, ItIsConfirmedWhenAllIsWritten) {
  const Scratch scratch;
  const Truth truth;
  int confirmed = 0;
  World::run_threads(2, [&](World& world) {
    CheckpointOptions options;
    options.confirm = [&] {
      EXPECT_EQ(world.rank(), 0);
      for (const auto& entry : fs::directory_iterator(scratch.path())) {
        if (!entry.path().filename().string().starts_with(".partial-")) continue;
        EXPECT_TRUE(fs::exists(entry.path() / "manifest.json"));
      }
      if (++confirmed == 2) throw Failure("another run has it");
    };
    CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path()), options);
    writer.begin(grid_manifest(1, 2), truth.state({2, 1}, world.rank()));
    const std::string usable = writer.finish()->path;
    writer.begin(grid_manifest(2, 2), truth.state({2, 1}, world.rank()));
    EXPECT_EQ(message_of<Failure>([&] { writer.finish(); }),
              "checkpoint " + scratch.path("step-000000000002") +
                  " was not written: another run has it; " + usable + " stays usable");
  });
  EXPECT_EQ(confirmed, 2);
  EXPECT_EQ(test::entries(scratch.path()), 1u);
}

// Memory that one call is getting ready is not taken away by the next.
TEST(CheckpointFaults, MemoryMayBeReservedAgain) {
  const Scratch scratch;
  World::run_threads(1, [&](World& world) {
    CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path()), {});
    State state;
    for (const std::int64_t megabytes : {64, 96, 8, 97}) {
      state.model["w"] = torch::full({megabytes, 1 << 18}, 3, torch::kFloat);
      writer.reserve(state);
    }
    writer.begin(grid_manifest(1, 1), state);
    const WrittenCheckpoint written = *writer.finish();
    EXPECT_EQ(written.copied, std::uint64_t{97} << 20);
    EXPECT_TRUE(read_model(written.path, open_checkpoint(written.path))
                    .model.at("w")
                    .equal(state.model["w"]));
  });
}

}  // namespace
}  // namespace convoy::train
