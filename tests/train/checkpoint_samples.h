// A manifest with something in every field, and small checkpoints.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/safetensors.h"

namespace convoy::train {

inline Manifest sample_manifest(std::int64_t step) {
  Manifest manifest;
  manifest.model = "resnet50";
  manifest.strategy = "sync";
  manifest.recipe = "[model]\nname = \"resnet50\"  # \"quoted\"\n";
  manifest.classes = {"cat", "h\u00fchner", ""};
  manifest.step = step;
  manifest.position = {3, 2, {{0, 1200}, {1300, 1300}, {5000, 5001}}, 4};
  manifest.world = 4;
  manifest.samples = 60'000;
  manifest.data_fingerprint = 0xfedcba9876543210;
  manifest.metric = "top1";
  manifest.seconds = 1234.5678901234567;
  manifest.aliases = {{"head.weight", "embedding.weight"}};
  manifest.numbers = {{"optimizer.step", 17},
                      {"tiny", 4.9406564584124654e-324},
                      {"third", 1.0 / 3},
                      {"negative zero", -0.0},
                      {"best", -std::numeric_limits<double>::infinity()}};
  manifest.lists = {{"reducer.order", {"b", "a"}}, {"none", {}}};
  return manifest;
}

// A model of two floats, and its momentum.
inline void fill_small(const std::string& folder) {
  const float numbers[2] = {1.5f, -2.0f};
  const auto bytes = std::as_bytes(std::span(numbers));
  write_safetensors(folder + "/part-0.safetensors", {{"model/w", "F32", {2}, bytes}});
  write_safetensors(folder + "/part-1.safetensors",
                    {{"optimizer/momentum_buffer/w", "F32", {2}, bytes}});
}

// The manifest of what is in these files.
inline void describe_files(const std::string& folder, Manifest& manifest) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const std::vector<std::byte> bytes = read_file(entry.path());
    const SafetensorsFile file(bytes, name);
    const std::uint64_t hashed = file.offset_of(file.tensors().front());
    manifest.files[name] = {bytes.size(), hashed, xxh3(std::span(bytes).first(hashed))};
    for (const TensorView& view : file.tensors()) {
      const std::size_t slash = view.name.find('/');
      const bool model = view.name.substr(0, slash) == "model";
      manifest.tensors.push_back({model ? TensorGroup::model : TensorGroup::optimizer,
                                  view.name.substr(slash + 1),
                                  view.type,
                                  view.shape,
                                  {}});
      manifest.tensors.back().slices.push_back({name, std::vector<std::int64_t>(view.shape.size()),
                                                view.shape, file.offset_of(view),
                                                xxh3(view.bytes)});
    }
  }
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const auto& a, const auto& b) { return a.group < b.group; });
}

// A checkpoint of files that `fill` writes into the folder it is given.
inline std::string write_files(const CheckpointFolder& folder, Manifest manifest,
                               const std::function<void(const std::string& folder)>& fill,
                               const Retention& retention) {
  CheckpointDraft draft(folder.folder(), manifest.step);
  try {
    fill(draft.folder());
  } catch (const Failure& error) {
    throw draft.failure(error.what());
  }
  describe_files(draft.folder(), manifest);
  return draft.commit(manifest, retention);
}

inline constexpr Retention kAll{100, true};

inline std::string write_small(const CheckpointFolder& folder, std::int64_t step,
                               std::optional<double> score = std::nullopt,
                               const Retention& retention = kAll) {
  Manifest manifest = sample_manifest(step);
  manifest.score = score;
  return write_files(folder, manifest, fill_small, retention);
}

inline std::vector<std::string> names(const CheckpointFolder& folder) {
  std::vector<std::string> all;
  for (const std::string& path : folder.list())
    all.push_back(std::filesystem::path(path).filename());
  return all;
}

inline std::vector<std::string> steps(std::initializer_list<int> numbers) {
  std::vector<std::string> all;
  for (const int number : numbers) {
    const std::string digits = std::to_string(number);
    all.push_back("step-" + std::string(12 - digits.size(), '0') + digits);
  }
  return all;
}

}  // namespace convoy::train
