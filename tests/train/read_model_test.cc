// Checkpoints that are read straight into what a rank has of a network.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "convoy/base/error.h"
#include "tests/base/mounts.h"
#include "tests/train/grid_state.h"

namespace convoy::train::testing_data {
namespace {

enum class Memory {
  like_files,
  other  // layouts and types that no file has
};

// What a rank of a grid holds of Truth's tensors, all zeros.
class Part : public torch::nn::Module {
 public:
  Part(const Truth& truth, const Grid& grid, int rank, Memory memory) {
    for (const auto& [name, tensor] : truth.tensors()) {
      const Slice slice = Truth::slice_for(whole_of(name, tensor.sizes().vec()), grid, rank);
      torch::Tensor own = torch::zeros(slice.size, tensor.options());
      if (memory == Memory::other) {
        if (own.dim() == 4) own = own.contiguous(torch::MemoryFormat::ChannelsLast);
        if (name == "columns") own = own.to(torch::kFloat);
        if (name == "half") own = own.to(torch::kDouble).t().contiguous().t();
      }
      const std::size_t dot = name.find('.');
      if (dot == std::string::npos) {
        register_buffer(name, own);
        continue;
      }
      const std::string inner = name.substr(0, dot);
      if (!named_children().contains(inner))
        register_module(inner, std::make_shared<torch::nn::Module>());
      named_children()[inner]->register_parameter(name.substr(dot + 1), own);
      if (name == "fc.weight") register_parameter("tied", own);
    }
  }

  void expect_holds(const Truth& truth, const Grid& grid, int rank) const {
    State own;
    describe_module(*this, own);
    for (const auto& [name, tensor] : truth.tensors()) {
      const Slice slice = Truth::slice_for(whole_of(name, tensor.sizes().vec()), grid, rank);
      const torch::Tensor held = held_as(own, name);
      EXPECT_TRUE(held.equal(truth.of(slice).to(held.scalar_type()))) << name;
    }
  }
  static torch::Tensor held_as(const State& own, const std::string& name) {
    const auto found = own.model.find(name);
    if (found != own.model.end()) return found->second;
    return own.model.at(own.aliases.at(name));
  }
};

State read_into(World& world, const std::string& checkpoint, const Manifest& manifest,
                const Grid& grid, Part& part) {
  return read_model(
      world.communicator(), checkpoint, manifest,
      [&](const Slice& whole) { return Truth::slice_for(whole, grid, world.rank()); }, part);
}

TEST(ReadModel, IntoTheTensorsOfAnyGrid) {
  const Scratch scratch;
  const Truth truth;
  World::run_threads(2, [&](World& world) { write_on(world, scratch.path(), 1, truth, {1, 2}); });
  const std::string checkpoint = scratch.path("step-000000000001");
  for (const Memory memory : {Memory::like_files, Memory::other}) {
    for (const Grid& grid : kGrids) {
      World::run_threads(grid.size(), [&](World& world) {
        Part part(truth, grid, world.rank(), memory);
        State before;
        describe_module(part, before);
        const State state = read_into(world, checkpoint, open_checkpoint(checkpoint), grid, part);
        EXPECT_EQ(state.model.size(), truth.tensors().size());
        EXPECT_TRUE(state.optimizer.empty());
        EXPECT_TRUE(state.rank.empty());
        for (const auto& [name, tensor] : state.model)
          EXPECT_TRUE(tensor.is_same(Part::held_as(before, name))) << name;
        part.expect_holds(truth, grid, world.rank());
        load_module(part, state, checkpoint);  // changes nothing, and says that all is there
        part.expect_holds(truth, grid, world.rank());
      });
    }
  }
}

// Ranks that see the files read for themselves, and aren't disturbed by what others are handed.
TEST(ReadModel, WhereARankDoesNotSeeTheFiles) {
  const Scratch scratch;
  const Truth truth;
  const Grid grid{1, 3};
  const std::string folder = scratch.path("run");
  World::run_threads(1, [&](World& world) { write_on(world, folder, 1, truth, {1, 1}); });
  const std::string checkpoint = folder + "/step-000000000001";
  const Manifest manifest = manifest_from_json(to_json(open_checkpoint(checkpoint)), "told");
  World::run_threads(3, [&](World& world) {
    const auto body = [&] {
      if (world.communicator().broadcast_text("mounted", 1) != "mounted") return;
      EXPECT_EQ(fs::exists(checkpoint), world.rank() != 1);
      for (const Memory memory : {Memory::like_files, Memory::other}) {
        Part part(truth, grid, world.rank(), memory);
        read_into(world, checkpoint, manifest, grid, part);
        part.expect_holds(truth, grid, world.rank());
      }
    };
    if (world.rank() != 1) return body();
    bool mounted = false;
    test::with_mount(folder.c_str(), "16m", [&] {
      mounted = true;
      body();
    });
    if (!mounted) world.communicator().broadcast_text("not allowed", 1);
  });
}

TEST(ReadModel, AnotherNetworkIsRefusedAsEver) {
  const Scratch scratch;
  World::run_threads(1, [&](World& world) {
    write_on(world, scratch.path(), 1, Truth(1, 20), {1, 1});
    const std::string checkpoint = scratch.path("step-000000000001");
    Part part(Truth(1, 30), {1, 1}, 0, Memory::like_files);
    const State state = read_into(world, checkpoint, open_checkpoint(checkpoint), {1, 1}, part);
    const std::string said =
        message_of<UsageError>([&] { load_module(part, state, "the checkpoint"); });
    EXPECT_NE(said.find("fc.bias is [20] in the file, [30] in the model"), std::string::npos)
        << said;
  });
}

}  // namespace
}  // namespace convoy::train::testing_data
