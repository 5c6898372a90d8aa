// One row of `convoy bench ablation`, in its own process.
#pragma once

#include <cstdint>
#include <string>

namespace convoy::cli {

struct AblationRow {
  std::string model = "resnet50";
  std::int64_t batch = 16;
  std::int64_t image_size = 0;  // height and width in pixels; 0: the network's own
  int threads = 2;
  // The switches.
  bool channels_last = false;
  bool allocator = false;
  bool fused = false;
};

// Trains on the same random images in every step, always from the same seed, and serves
// RowProcess's protocol on standard input and output until the input ends.
void serve_ablation_row(const AblationRow& row);

}  // namespace convoy::cli
