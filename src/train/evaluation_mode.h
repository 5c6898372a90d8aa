// A network that is used, not trained.
#pragma once

#include <torch/torch.h>

namespace convoy::train {

// Puts a network into evaluation mode, and at its end back into the mode that it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& network)
      : network_(network), training_(network.is_training()) {
    network_.eval();
  }
  ~EvaluationMode() { network_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& network_;
  bool training_;
};

}  // namespace convoy::train
