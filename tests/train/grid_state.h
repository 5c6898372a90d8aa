// States that a grid of ranks (replicas x partitions) holds together, and what is to be read again.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/state.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"

namespace convoy::train::testing_data {

// What its tests, which are in this namespace as well, write in short.
namespace fs = std::filesystem;
using comm::World;
using test::message_of;
using test::Scratch;

// Rank r is replica r / partitions, partition r % partitions.
struct Grid {
  int replicas = 1;
  int partitions = 1;
  int size() const { return replicas * partitions; }
};

inline constexpr Grid kGrids[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 4}};

// Every tensor, whole. The dimension that partitions divide, or none, is in kDivided.
class Truth {
 public:
  explicit Truth(int seed = 1, std::int64_t rows = 300) {
    torch::manual_seed(seed);
    tensors_["conv.weight"] = torch::randn({16, 3, 3, 3});
    tensors_["head.weight"] = torch::randn({512, 300});           // large, not divided
    tensors_["fc.weight"] = torch::randn({rows, 512});            // 0
    tensors_["fc.bias"] = torch::randn({rows});                   // 0
    tensors_["columns"] = torch::randn({7, 5}, torch::kFloat64);  // 1
    tensors_["half"] = torch::randn({3, 2}).to(torch::kBFloat16);
    tensors_["counter"] = torch::full({}, seed, torch::kLong);
    tensors_["empty"] = torch::empty({0, 3});
  }

  static int divided(const std::string& name) {
    if (name.starts_with("fc.")) return 0;
    return name == "columns" ? 1 : -1;
  }
  const std::map<std::string, torch::Tensor>& tensors() const { return tensors_; }

  // What a partition needs of a tensor.
  static Slice slice_for(const Slice& whole, const Grid& grid, int rank) {
    const int d = divided(whole.tensor);
    if (d < 0 || grid.partitions == 1) return whole;
    return even_part(whole.tensor, whole.shape, static_cast<std::size_t>(d), rank % grid.partitions,
                     grid.partitions);
  }
  torch::Tensor of(const Slice& slice) const {
    torch::Tensor tensor = tensors_.at(slice.tensor);
    for (std::size_t d = 0; d < slice.size.size(); ++d)
      tensor = tensor.narrow(static_cast<std::int64_t>(d), slice.begin[d], slice.size[d]);
    return tensor;
  }

  State state(const Grid& grid, int rank) const {
    State state;
    for (const auto& [name, tensor] : tensors_) {
      const Slice slice = slice_for(whole_of(name, tensor.sizes().vec()), grid, rank);
      if (!slice.whole()) state.parts[name] = slice;
      state.model[name] = of(slice);
      if (tensor.is_floating_point()) state.optimizer["momentum/" + name] = of(slice) * 2;
    }
    state.rank["bn.mean"] = torch::full({4}, rank, torch::kFloat);
    state.aliases = {{"tied", "fc.weight"}};
    state.numbers = {{"optimizer.step", 17}};
    state.lists = {{"order", {"b", "a"}}};
    return state;
  }

  void expect_in(const State& state, const Grid& grid, int rank) const {
    ASSERT_EQ(state.model.size(), tensors_.size());
    ASSERT_EQ(state.optimizer.size(), tensors_.size() - 1);
    for (const auto& [name, tensor] : tensors_) {
      const Slice slice = slice_for(whole_of(name, tensor.sizes().vec()), grid, rank);
      EXPECT_EQ(state.parts.contains(name), !slice.whole()) << name;
      EXPECT_TRUE(state.model.at(name).equal(of(slice))) << name;
      EXPECT_EQ(state.model.at(name).scalar_type(), tensor.scalar_type());
      if (!tensor.is_floating_point()) continue;
      EXPECT_TRUE(state.optimizer.at("momentum/" + name).equal(of(slice) * 2)) << name;
    }
    EXPECT_EQ(state.aliases.at("tied"), "fc.weight");
    EXPECT_EQ(state.numbers.at("optimizer.step"), 17);
    EXPECT_EQ(state.lists.at("order"), (std::vector<std::string>{"b", "a"}));
  }

 private:
  std::map<std::string, torch::Tensor> tensors_;
};

inline Manifest grid_manifest(std::int64_t step, int world) {
  Manifest manifest = sample_manifest(step);
  manifest.world = world;
  manifest.numbers.clear();
  return manifest;
}

// Writes one, on every rank of a world of the grid's size.
inline WrittenCheckpoint write_on(World& world, const std::string& folder, std::int64_t step,
                                  const Truth& truth, const Grid& grid,
                                  CheckpointOptions options = {}) {
  options.retention.last = 99;
  CheckpointWriter writer(world.communicator(), CheckpointFolder(folder), options);
  writer.begin(grid_manifest(step, grid.size()), truth.state(grid, world.rank()));
  return *writer.finish();
}

inline State read_on(World& world, const std::string& checkpoint, const Grid& grid) {
  return read_checkpoint(
      world.communicator(), checkpoint, open_checkpoint(checkpoint),
      [&](const Slice& whole) { return Truth::slice_for(whole, grid, world.rank()); });
}

}  // namespace convoy::train::testing_data
