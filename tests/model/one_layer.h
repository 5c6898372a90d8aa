// A stage of one layer, and what tests do with it.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <memory>

#include "convoy/model/stage.h"

namespace convoy::model {

inline std::shared_ptr<Stage> stage_of(const layer::Kind& kind,
                                       torch::Dtype type = torch::kDouble) {
  const StageSpec spec{"s", {"x"}, {{"layer", kind, {"x"}, {}}}, {"layer"}};
  auto stage = std::make_shared<Stage>(spec, 1);
  stage->to(type);
  return stage;
}

inline double difference(const torch::Tensor& got, const torch::Tensor& wanted) {
  return (got.detach().to(torch::kDouble).contiguous().flatten() - wanted.detach().flatten())
      .abs()
      .max()
      .item<double>();
}

// In its scope autocast has bfloat16.
class Bfloat16 {
 public:
  Bfloat16() { set(true); }
  ~Bfloat16() {
    set(false);
    at::autocast::clear_cache();
  }
  Bfloat16(const Bfloat16&) = delete;
  Bfloat16& operator=(const Bfloat16&) = delete;

 private:
  static void set(bool on) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
};

}  // namespace convoy::model
