// Writes files that programs of others then read: tests/golden/check_tensorboard.py and
// check_safetensors.py know what is in them.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("train_sample_files FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  write_board(folder + "/tensorboard");
  write_weights(folder + "/weights.safetensors");
}
