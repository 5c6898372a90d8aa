// What open_checkpoint() and the like find in damaged checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using test::entries;
using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

TEST(Checkpoints, EveryFlippedBitIsFound) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string earlier = write_small(folder, 1);
  const std::string path = write_small(folder, 2);
  std::size_t bits = 0;
  for (const char* name : {"manifest.json", "part-0.safetensors", "part-1.safetensors"}) {
    const std::string file = path + "/" + name;
    const std::string good = slurp(file);
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&stream](std::size_t at, char byte) {
      stream.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    };
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit, ++bits) {
      const std::size_t at = bit / 8;
      put(at, static_cast<char>(good[at] ^ (1 << bit % 8)));
      const std::string said = message_of<UsageError>([&] { verify_checkpoint(path); });
      put(at, good[at]);
      ASSERT_TRUE(said.starts_with(file)) << bit << ": " << said;
      ASSERT_TRUE(said.ends_with("the newest whole one before it is " + earlier)) << said;
    }
  }
  EXPECT_GT(bits, 9000u);
  EXPECT_EQ(open_checkpoint(path).step, 2);
}

TEST(Checkpoints, DamageIsNamed) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int step : {1, 2, 3, 4}) write_small(folder, step);
  const std::string path = folder.newest();
  const std::string model = path + "/part-0.safetensors";
  const auto said = [&] { return message_of<UsageError>([&] { open_checkpoint(path); }); };

  const std::string good = slurp(model);
  spill(model, good.substr(0, 20));
  EXPECT_EQ(said(), model + " is damaged: it has 20 bytes, the manifest says " +
                        std::to_string(good.size()) + "; the newest whole one before it is " +
                        scratch.path("step-000000000003"));
  fs::remove(model);
  EXPECT_TRUE(said().starts_with(model + " is missing; ")) << said();
  fs::create_directory(model);
  EXPECT_TRUE(said().starts_with(model + " is not a regular file; ")) << said();

  // The one before is damaged, too, and so on.
  fs::remove(scratch.path("step-000000000003/part-1.safetensors"));
  EXPECT_TRUE(said().ends_with("before it is " + scratch.path("step-000000000002"))) << said();
  for (const char* name : {"step-000000000002", "step-000000000001"}) {
    fs::remove(scratch.path(name) + "/manifest.json");
  }
  EXPECT_TRUE(said().ends_with("; there is no earlier checkpoint that is whole")) << said();
  fs::remove(path + "/manifest.json");
  EXPECT_TRUE(said().starts_with("cannot read " + path + "/manifest.json: No such file")) << said();
  EXPECT_EQ(message_of<UsageError>([&] { open_checkpoint(scratch.path("none")); }),
            scratch.path("none") + " is not a checkpoint's folder");
}

// The process is ending, and nobody is left to be told.
TEST(Checkpoints, AFailureThatNobodyWaitsForReadsNoEarlierOnes) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1);
  const std::string said = "checkpoint " + scratch.path("step-000000000002") +
                           " was not written: the folder was taken over";
  for (const int reads : {0, 1, 2}) {
    int asked = 0;
    CheckpointDraft draft(folder.folder(), 2, [&] { return asked++ >= reads; });
    EXPECT_EQ(draft.failure("the folder was taken over").what(), said) << reads;
    EXPECT_EQ(asked, reads + 2) << reads;
  }
  CheckpointDraft draft(folder.folder(), 2, [] { return false; });
  EXPECT_EQ(draft.failure("the folder was taken over").what(),
            said + "; " + scratch.path("step-000000000001") + " stays usable");
}

TEST(Checkpoints, OnlyPlainFiles) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const auto attempt = [&](const std::function<void(const std::string&)>& fill) {
    return message_of<UsageError>([&] {
      CheckpointDraft draft(folder.folder(), 1);
      fill(draft.folder());
      draft.commit(sample_manifest(1), kAll);
    });
  };
  EXPECT_NE(attempt([](const std::string& path) { fs::create_directory(path + "/sub"); }), "");
  EXPECT_NE(attempt([](const std::string& path) { spill(path + "/manifest.json", ""); }), "");
  EXPECT_NE(attempt([](const std::string& path) { fs::create_symlink("/", path + "/link"); }), "");
  EXPECT_EQ(entries(scratch.path()), 0u);
}

TEST(Checkpoints, AMissingFileIsNoCheckpoint) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  write_small(folder, 1);
  CheckpointDraft draft(folder.folder(), 2);
  Manifest manifest = sample_manifest(2);
  fill_small(draft.folder());
  describe_files(draft.folder(), manifest);
  fs::remove(draft.folder() + "/part-1.safetensors");
  EXPECT_EQ(message_of<Failure>([&] { draft.commit(manifest, kAll); }),
            "checkpoint " + scratch.path("step-000000000002") +
                " was not written: part-1.safetensors should have " +
                std::to_string(manifest.files["part-1.safetensors"].bytes) +
                " bytes, but is not there; " + scratch.path("step-000000000001") + " stays usable");
  EXPECT_EQ(entries(scratch.path()), 1u);
}

// Files of one checkpoint in another one's folder.
TEST(Checkpoints, APartOfAnotherStepIsFound) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string one = write_small(folder, 1);
  const std::string two = write_files(
      folder, sample_manifest(2),
      [](const std::string& path) {
        fill_small(path);
        const float numbers[2] = {4, 5};
        write_safetensors(path + "/part-0.safetensors",
                          {{"model/w", "F32", {2}, std::as_bytes(std::span(numbers))}});
      },
      kAll);
  fs::copy_file(one + "/part-0.safetensors", two + "/part-0.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(open_checkpoint(two).step, 2);  // of the right size, with the right tensors
  const std::string said = message_of<UsageError>([&] { verify_checkpoint(two); });
  EXPECT_TRUE(said.starts_with(two + "/part-0.safetensors is damaged: the checksum of w [2] is "))
      << said;
  EXPECT_TRUE(said.ends_with("the newest whole one before it is " + one)) << said;
}

}  // namespace
}  // namespace convoy::train
