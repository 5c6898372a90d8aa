// A manifest with something in every field, and small checkpoints.
#pragma once

#include <limits>
#include <string>

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

// What a fill function of CheckpointFolder::write does: a model of two floats.
inline void fill_small(const std::string& folder) {
  const float numbers[2] = {1.5f, -2.0f};
  const auto bytes = std::as_bytes(std::span(numbers));
  write_safetensors(folder + "/model.safetensors", {{"w", "F32", {2}, bytes}});
  write_safetensors(folder + "/optimizer.safetensors", {{"momentum_buffer/w", "F32", {2}, bytes}});
}

}  // namespace convoy::train
