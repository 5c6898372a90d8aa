// Writes files that programs of others then read: tests/golden/check_tensorboard.py and
// check_safetensors.py know what is in them.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/files.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/export.h"
#include "convoy/train/metrics.h"
#include "convoy/train/safetensors.h"

using convoy::train::TensorBoardFile;

namespace {

// A run that got to step 10 and was resumed after its sixth.
void write_board(const std::string& folder) {
  {
    TensorBoardFile file(folder, -1);
    for (int step = 1; step <= 10; ++step) file.add(step, {{"train/loss", 1.0 / step}});
    file.add_text(1, "recipe", "model = 'lenet'");
  }
  TensorBoardFile file(folder, 6);
  for (int step = 7; step <= 8; ++step) file.add(step, {{"train/loss", 100.0 + step}});
}

void write_weights(const std::string& path) {
  std::vector<float> weights;
  for (int i = 0; i < 24; ++i) weights.push_back(static_cast<float>(i) / 4);
  const std::int64_t steps[] = {-3};
  convoy::train::write_safetensors(
      path, {{"conv.weight", "F32", {2, 3, 2, 2}, std::as_bytes(std::span(weights))},
             {"steps", "I64", {}, std::as_bytes(std::span(steps))}});
}

// A checkpoint of two parts, each with columns of a matrix, and what export makes of it.
void write_checkpoint(const std::string& folder) {
  using namespace convoy::train;
  Manifest manifest;
  StoredTensor tensor{TensorGroup::model, "fc.weight", "F32", {3, 4}, {}};
  CheckpointDraft draft(folder + "/checkpoints", 1);
  for (std::int64_t part = 0; part < 2; ++part) {
    std::vector<float> values;
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 2; ++column)
        values.push_back(static_cast<float>(10 * row + 2 * part + column));
    const auto bytes = std::as_bytes(std::span(values));
    const std::string name = "part-" + std::to_string(part) + ".safetensors";
    const std::string bounds = part == 0 ? "[0:3, 0:2]" : "[0:3, 2:4]";
    write_safetensors(draft.folder() + "/" + name,
                      {{"model/fc.weight" + bounds, "F32", {3, 2}, bytes}});
    const SafetensorsFile file(draft.folder() + "/" + name);
    const std::uint64_t head = file.offset_of(file.tensors()[0]);
    const std::string text = convoy::read_text_file(draft.folder() + "/" + name);
    manifest.files[name] = {text.size(), head,
                            convoy::xxh3(std::as_bytes(std::span(text)).first(head))};
    tensor.slices.push_back({name, {0, 2 * part}, {3, 2}, head, convoy::xxh3(bytes)});
  }
  manifest.tensors = {tensor};
  manifest.aliases = {{"tied.weight", "fc.weight"}};
  const std::string path = draft.commit(manifest, {});
  export_model(path, folder + "/exported.safetensors", false);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("train_sample_files FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  write_board(folder + "/tensorboard");
  write_weights(folder + "/weights.safetensors");
  write_checkpoint(folder);
}
