// Mixed precision: bfloat16 where it is fast and harmless, weights in float32.
#pragma once

#include <torch/torch.h>

namespace convoy::train {

// While it lives, the calling thread's operators on `device` that autocast knows (convolutions,
// matrix products) convert their inputs to bfloat16, and those that need it (softmax, losses) to
// float32. Let it end before backward. With on = false it does nothing. It may lie inside of
// another autocast, which it restores.
class Autocast {
 public:
  explicit Autocast(bool on, c10::DeviceType device = torch::kCPU);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
  bool was_enabled_ = false;
  at::ScalarType former_type_ = at::kFloat;
};

}  // namespace convoy::train
