// A network that is used, not trained.
#pragma once

#include "model/keep_modes.h"

namespace convoy::train {

// Puts a network into evaluation mode, and at its end each module back into the mode that it was
// in.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& network) : modes_(network) { network.eval(); }

 private:
  model::KeepModes modes_;
};

}  // namespace convoy::train
