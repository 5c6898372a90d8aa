// The acoustic model of Dean et al. 2012 (Large Scale Distributed Deep Networks, section 5).
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct SpeechDnnOptions {
  // Log energies as an image: 1 x frames x energies of a frame.
  Shape image{1, 11, 40};
  std::int64_t classes = 8192;  // acoustic states of the middle frame
  std::int64_t hidden = 2560;   // units of each hidden layer
  std::int64_t depth = 4;       // hidden layers
};

// Fully connected layers with sigmoids, and scores for a softmax: 440 -> 2560 x 4 -> 8192, with
// 41,777,152 parameters (the paper: about 42 million). Stages "fc1", "fc2", ... are a layer each,
// which is called as its stage, with its sigmoid. First weights: Glorot's for sigmoids, and those
// of the scores, which have none, LibTorch's. UsageError unless all numbers are positive and the
// image has three.
Blueprint speech_dnn(const SpeechDnnOptions& options = {});

}  // namespace convoy::model
