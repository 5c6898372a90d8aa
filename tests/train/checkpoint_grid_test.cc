// Checkpoints that grids of ranks write and others read.
#include <gtest/gtest.h>

#include <cstring>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "tests/base/mounts.h"
#include "tests/train/grid_state.h"
#include "train/checkpoint/slice_reader.h"

namespace convoy::train::testing_data {
namespace {

std::string text_of(const Grid& grid) {
  return std::to_string(grid.replicas) + "x" + std::to_string(grid.partitions);
}

void expect_exported(const std::string& checkpoint, const std::string& file, const Truth& truth) {
  export_model(checkpoint, file, false);
  const SafetensorsFile exported(file);
  EXPECT_EQ(exported.tensors().size(), truth.tensors().size() + 1);
  EXPECT_EQ(exported.metadata().at("format"), "pt");
  for (const auto& [name, tensor] : truth.tensors()) {
    const TensorView* view = exported.find(name);
    ASSERT_NE(view, nullptr) << name;
    EXPECT_EQ(view->shape, tensor.sizes().vec());
    const torch::Tensor whole = tensor.contiguous();
    ASSERT_EQ(view->bytes.size(), whole.nbytes()) << name;
    EXPECT_TRUE(whole.nbytes() == 0 ||
                std::memcmp(view->bytes.data(), whole.const_data_ptr(), whole.nbytes()) == 0)
        << name;
  }
  const auto tied = exported.find("tied")->bytes, weight = exported.find("fc.weight")->bytes;
  EXPECT_TRUE(std::equal(tied.begin(), tied.end(), weight.begin(), weight.end()));
}

TEST(CheckpointGrids, AreReadOnEachOther) {
  const Truth truth;
  for (const bool asynchronous : {true, false}) {
    const Scratch scratch;
    for (const Grid& from : kGrids) {
      SCOPED_TRACE("from " + text_of(from));
      const std::string folder = scratch.path(text_of(from));
      World::run_threads(from.size(), [&](World& world) {
        const auto written =
            write_on(world, folder, 5, truth, from, {.asynchronous = asynchronous});
        EXPECT_EQ(written.path, folder + "/step-000000000005");
        EXPECT_EQ(written.asynchronous, asynchronous);
        EXPECT_EQ(written.copied > 0, asynchronous);
      });
      const std::string checkpoint = folder + "/step-000000000005";
      EXPECT_EQ(test::entries(folder), 1u);
      EXPECT_EQ(test::entries(checkpoint), static_cast<std::size_t>(from.size()) + 1);
      verify_checkpoint(checkpoint);
      for (const Grid& to : kGrids) {
        SCOPED_TRACE("to " + text_of(to));
        World::run_threads(to.size(), [&](World& world) {
          const State state = read_on(world, checkpoint, to);
          truth.expect_in(state, to, world.rank());
          // What is a rank's own fits the same number of ranks.
          ASSERT_EQ(state.rank.size(), to.size() == from.size() ? 1u : 0u);
          if (state.rank.empty()) return;
          EXPECT_TRUE(state.rank.at("bn.mean").equal(torch::full({4}, world.rank())));
        });
      }
      expect_exported(checkpoint, scratch.path(text_of(from) + ".safetensors"), truth);
    }
  }
}

// Each rank may note some of what belongs to the tensors that it has.
TEST(CheckpointGrids, WhatRanksNoteIsKept) {
  const Scratch scratch;
  const auto note = [&](const std::string& name, std::function<void(State&, int)> change) {
    World::run_threads(3, [&](World& world) {
      State state;
      const int rank = world.rank();
      const std::string weight = "w" + std::to_string(rank);
      state.model[weight] = torch::ones({2});
      state.aliases = {{"also." + weight, weight}};
      state.numbers = {{"step/" + weight, rank + 0.1}, {"all", std::nan("")}};
      state.lists = {{"of/" + weight, {weight}}, {"of all", {"x"}}};
      change(state, rank);
      CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path(name)), {});
      writer.begin(grid_manifest(1, 3), state);
      writer.finish();
    });
  };
  note("a", [](State&, int) {});
  const Manifest manifest = open_checkpoint(scratch.path("a/step-000000000001"));
  EXPECT_EQ(manifest.numbers.size(), 4u);
  EXPECT_TRUE(std::isnan(manifest.numbers.at("all")));
  for (const int rank : {0, 1, 2}) {
    const std::string weight = "w" + std::to_string(rank);
    EXPECT_EQ(manifest.numbers.at("step/" + weight), rank + 0.1);
    EXPECT_EQ(manifest.lists.at("of/" + weight), std::vector<std::string>{weight});
    EXPECT_EQ(manifest.aliases.at("also." + weight), weight);
  }
  const std::string said = test::message_of<UsageError>(
      [&] { note("b", [](State& state, int rank) { state.numbers["all"] = rank < 2 ? 1 : 2; }); });
  EXPECT_NE(said.find("two ranks have different values for 'all'"), std::string::npos) << said;
}

// Replicas share the work.
TEST(CheckpointGrids, PartsAreOfAboutTheSameSize) {
  const Scratch scratch;
  const Truth truth(1, 2000);  // 4 MB
  for (const Grid& grid : {Grid{2, 1}, Grid{2, 2}, Grid{4, 1}, Grid{3, 1}}) {
    const std::string folder = scratch.path(text_of(grid));
    World::run_threads(grid.size(), [&](World& world) { write_on(world, folder, 1, truth, grid); });
    const Manifest manifest = verify_checkpoint(folder + "/step-000000000001");
    ASSERT_EQ(manifest.files.size(), static_cast<std::size_t>(grid.size()));
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (const auto& [name, entry] : manifest.files) {
      least = std::min(least, entry.bytes);
      most = std::max(most, entry.bytes);
      // What other programs read, too.
      const SafetensorsFile part(folder + "/step-000000000001/" + name);
      EXPECT_FALSE(part.tensors().empty());
    }
    EXPECT_LT(static_cast<double>(most), 1.2 * static_cast<double>(least)) << text_of(grid);
  }
}

// The same state gives the same files, so that runs can be compared.
TEST(CheckpointGrids, TheSameStateGivesTheSameFiles) {
  const Scratch scratch;
  const Truth truth;
  for (const char* name : {"a", "b"}) {
    World::run_threads(3, [&](World& world) {
      write_on(world, scratch.path(name), 1, truth, {3, 1});
    });
  }
  const Manifest a = open_checkpoint(scratch.path("a/step-000000000001"));
  EXPECT_EQ(a.tensors, open_checkpoint(scratch.path("b/step-000000000001")).tensors);
  EXPECT_EQ(a.files, open_checkpoint(scratch.path("b/step-000000000001")).files);
}

// A rank that builds a part of the network wants nothing of the rest.
TEST(CheckpointGrids, OnlyWhatIsWantedIsRead) {
  const Scratch scratch;
  const Truth truth;
  World::run_threads(2, [&](World& world) { write_on(world, scratch.path(), 1, truth, {1, 2}); });
  const std::string checkpoint = scratch.path("step-000000000001");
  // Damage in what is not read is nobody's business.
  const Manifest manifest = open_checkpoint(checkpoint);
  for (const StoredTensor& tensor : manifest.tensors) {
    if (tensor.name != "fc.weight") continue;
    std::fstream file(checkpoint + "/" + tensor.slices[1].file,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(tensor.slices[1].offset)).put('x');
  }
  World::run_threads(1, [&](World& world) {
    const State state = read_checkpoint(world.communicator(), checkpoint, manifest,
                                        [](const Slice& whole) -> std::optional<Slice> {
                                          if (whole.tensor == "fc.weight")
                                            return even_part("fc.weight", whole.shape, 0, 0, 3);
                                          if (whole.tensor == "counter") return whole;
                                          return std::nullopt;
                                        });
    EXPECT_EQ(state.model.size(), 2u);
    EXPECT_EQ(state.optimizer.size(), 1u);
    EXPECT_TRUE(
        state.model.at("fc.weight").equal(truth.tensors().at("fc.weight").narrow(0, 0, 100)));
    EXPECT_EQ(state.parts.at("fc.weight").size, (std::vector<std::int64_t>{100, 512}));
    const std::string said = message_of<UsageError>(
        [&] { read_checkpoint(world.communicator(), checkpoint, manifest); });
    EXPECT_NE(said.find("/part-1.safetensors is damaged: the checksum of fc.weight[150:300, :] of "
                        "[300, 512] is "),
              std::string::npos)
        << said;
  });
}

TEST(CheckpointGrids, SlicesThatDoNotFitAreRefusedOnEveryRank) {
  const Scratch scratch;
  const Truth truth;
  const auto refusal = [&](const std::function<void(State&, int)>& change) {
    std::string first;
    World::run_threads(2, [&](World& world) {
      CheckpointWriter writer(world.communicator(), CheckpointFolder(scratch.path("run")), {});
      State state = truth.state({1, 2}, world.rank());
      change(state, world.rank());
      const std::string said =
          message_of<UsageError>([&] { writer.begin(grid_manifest(1, 2), state); });
      EXPECT_EQ(said, world.communicator().broadcast_text(said, 0));
      EXPECT_FALSE(writer.writing());
      if (world.rank() == 0) first = said;
    });
    EXPECT_FALSE(fs::exists(scratch.path("run")));
    return first;
  };
  EXPECT_EQ(refusal([](State& state, int rank) {
              if (rank == 1) state.model.erase("fc.bias");
            }),
            "a checkpoint can't be written: nobody holds fc.bias[150:300] of [300]");
  EXPECT_EQ(refusal([](State& state, int rank) {
              if (rank == 1) state.parts["fc.bias"].begin = {149};
            }),
            "a checkpoint can't be written: two hold elements of fc.bias[149:299] of [300]");
  EXPECT_EQ(refusal([](State& state, int rank) {
              if (rank == 1) state.parts["fc.bias"].size = {149};
            }),
            "a checkpoint can't be written: tensor 'fc.bias' is not of the size of "
            "fc.bias[150:299] of [300]");
  EXPECT_NE(refusal([](State& state, int rank) {
              if (rank == 1) state.model["half"] = torch::ones({3, 2});
            }).find("tensor 'half' has another type or shape on some ranks"),
            std::string::npos);
  EXPECT_NE(refusal([](State& state, int rank) {
              if (rank == 0) state.model["half"] = torch::ones({3, 2}, torch::kComplexFloat);
            }).find("tensor 'half' has a type that safetensors files can't hold"),
            std::string::npos);
}

// Each rank has a file system of its own where the run's folder is.
TEST(CheckpointGrids, FoldersThatAreLocalToEachHost) {
  const Scratch scratch;
  const Truth truth(1, 20000);  // 41 MB, and as much of the optimizer: several pieces
  const std::string folder = scratch.path("run");
  fs::create_directory(folder);
  World::run_threads(3, [&](World& world) {
    const auto body = [&] {
      if (world.communicator().broadcast_text("mounted", 1) != "mounted") return;
      for (const bool asynchronous : {true, false}) {
        const int step = asynchronous ? 1 : 2;
        write_on(world, folder, step, truth, {3, 1}, {.asynchronous = asynchronous});
        const std::string checkpoint = folder + "/step-00000000000" + std::to_string(step);
        world.communicator().barrier();
        EXPECT_EQ(fs::exists(checkpoint), world.rank() != 1);
        std::string manifest;
        if (world.rank() == 0) manifest = to_json(verify_checkpoint(checkpoint));
        manifest = world.communicator().broadcast_text(manifest, 0);
        const State state =
            read_checkpoint(world.communicator(), checkpoint, manifest_from_json(manifest, "told"));
        truth.expect_in(state, {3, 1}, world.rank());
        EXPECT_TRUE(state.rank.at("bn.mean").equal(torch::full({4}, world.rank())));
      }
      // Damage is found by the one who reads, and said to all.
      const std::string checkpoint = folder + "/step-000000000002";
      std::string manifest;
      if (world.rank() == 0) {
        manifest = to_json(open_checkpoint(checkpoint));
        std::fstream file(checkpoint + "/part-1.safetensors",
                          std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(20'000'000).put('x');
      }
      manifest = world.communicator().broadcast_text(manifest, 0);
      const std::string said = message_of<UsageError>([&] {
        read_checkpoint(world.communicator(), checkpoint, manifest_from_json(manifest, "told"));
      });
      EXPECT_NE(said.find("/part-1.safetensors is damaged: the checksum of "), std::string::npos)
          << said;
      EXPECT_NE(said.find("before it is " + folder + "/step-000000000001"), std::string::npos)
          << said;
    };
    if (world.rank() != 1) return body();
    bool mounted = false;
    test::with_mount(folder.c_str(), "256m", [&] {
      mounted = true;
      body();
    });
    if (!mounted) world.communicator().broadcast_text("not allowed", 1);
  });
}

// As Convoy wrote them when a checkpoint had one file for the model; tests/train/fixtures.
TEST(CheckpointFormat1, IsStillRead) {
  const std::string checkpoint = test::source_folder() + "/tests/train/fixtures/format1";
  const Manifest manifest = open_checkpoint(checkpoint);
  EXPECT_EQ(manifest.format, 1);
  EXPECT_EQ(manifest.step, 4);
  EXPECT_EQ(manifest.world, 2);
  EXPECT_EQ(manifest.files.size(), 3u);
  const SafetensorsFile model(checkpoint + "/model.safetensors");
  const SafetensorsFile optimizer(checkpoint + "/optimizer.safetensors");
  const SafetensorsFile ranks(checkpoint + "/ranks.safetensors");
  const auto expect_all = [](const Tensors& tensors, const SafetensorsFile& file,
                             const std::string& prefix) {
    for (const auto& [name, tensor] : tensors) {
      const TensorView* view = file.find(prefix + name);
      ASSERT_NE(view, nullptr) << name;
      ASSERT_EQ(view->bytes.size(), tensor.nbytes());
      EXPECT_EQ(std::memcmp(view->bytes.data(), tensor.const_data_ptr(), tensor.nbytes()), 0);
    }
  };
  World::run_threads(2, [&](World& world) {
    // As the trainer hands it on.
    const Manifest told = manifest_from_json(to_json(manifest), "told");
    const State state = read_checkpoint(world.communicator(), checkpoint, told);
    EXPECT_EQ(state.model.size(), model.tensors().size());
    EXPECT_EQ(state.optimizer.size(), optimizer.tensors().size());
    EXPECT_EQ(state.rank.size(), ranks.tensors().size() / 2);
    expect_all(state.model, model, "");
    expect_all(state.optimizer, optimizer, "");
    expect_all(state.rank, ranks, std::to_string(world.rank()) + "/");
    EXPECT_FALSE(state.lists.at("sync.gradient_order").empty());
  });
  const Scratch scratch;
  export_model(checkpoint, scratch.path("weights"), false);
  // The same tensors; an export says more of the network in its header.
  const auto tensors = [](const std::string& file) {
    const std::string bytes = test::slurp(file);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return bytes.substr(sizeof(header) + header);
  };
  EXPECT_EQ(tensors(scratch.path("weights")), tensors(checkpoint + "/model.safetensors"));
}

TEST(CheckpointFormat1, DamageIsFoundWhenItIsOpened) {
  const Scratch scratch;
  const std::string good = test::source_folder() + "/tests/train/fixtures/format1";
  for (const char* name :
       {"manifest.json", "model.safetensors", "optimizer.safetensors", "ranks.safetensors"}) {
    const std::string checkpoint = scratch.path("step-000000000004");
    fs::copy(good, checkpoint);
    const std::string bytes = test::slurp(checkpoint + "/" + name);
    for (const std::size_t at : {std::size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      test::spill(checkpoint + "/" + name, changed);
      const std::string said = message_of<UsageError>([&] { open_checkpoint(checkpoint); });
      EXPECT_TRUE(said.starts_with(checkpoint + "/" + name)) << said;
    }
    test::spill(checkpoint + "/" + name, bytes.substr(0, bytes.size() / 2));
    EXPECT_NE(message_of<UsageError>([&] { open_checkpoint(checkpoint); }), "") << name;
    fs::remove(checkpoint + "/" + name);
    EXPECT_NE(message_of<UsageError>([&] { open_checkpoint(checkpoint); }), "") << name;
    fs::remove_all(checkpoint);
  }
}

TEST(CheckpointPieces, LieOneBehindTheOther) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {1}, {7}, {3, 5}, {2, 3, 4, 5}, {1, 1, 9}, {4, 1, 3}}) {
    for (const std::size_t limit : {1, 8, 12, 40, 100, 100000}) {
      Slice slice = whole_of("t", shape);
      if (!shape.empty()) {
        slice.shape[0] += 3;
        slice.begin[0] = 2;
      }
      std::vector<std::int32_t> values(static_cast<std::size_t>(slice.elements()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
      std::vector<std::int32_t> copy(values.size(), -1);
      std::size_t at = 0;
      for_each_piece(slice, 4, limit, [&](const Slice& piece) {
        const auto size = static_cast<std::size_t>(piece.elements());
        EXPECT_TRUE(size * 4 <= limit || size == 1);
        copy_overlap(piece, std::as_bytes(std::span(values).subspan(at, size)), slice,
                     std::as_writable_bytes(std::span(copy)), 4);
        at += size;
      });
      EXPECT_EQ(copy, values);
    }
  }
  for_each_piece(whole_of("none", {0, 3}), 4, 8, [](const Slice&) { FAIL(); });
}

TEST(CheckpointExport, RefusesToReplaceAndLeavesNothingOfDamage) {
  const Scratch scratch;
  const Truth truth;
  World::run_threads(1, [&](World& world) { write_on(world, scratch.path("c"), 1, truth, {}); });
  const std::string checkpoint = scratch.path("c/step-000000000001"), file = scratch.path("w");
  test::spill(file, "mine");
  EXPECT_EQ(message_of<UsageError>([&] { export_model(checkpoint, file, false); }),
            file + " is there already; --overwrite replaces it");
  EXPECT_GT(export_model(checkpoint, file, true).bytes, 1000u);
  const std::string good = test::slurp(file);
  std::fstream(checkpoint + "/part-0.safetensors", std::ios::binary | std::ios::in | std::ios::out)
      .seekp(1'000'000)
      .put('x');
  EXPECT_NE(
      message_of<UsageError>([&] { export_model(checkpoint, file, true); }).find("is damaged"),
      std::string::npos);
  EXPECT_EQ(test::slurp(file), good);
  EXPECT_EQ(test::entries(scratch.path()), 2u);
  EXPECT_THROW(export_model(checkpoint, scratch.path("c"), true), UsageError);
  EXPECT_THROW(export_model(checkpoint, scratch.path("none/w"), false), Failure);
}

}  // namespace
}  // namespace convoy::train::testing_data
