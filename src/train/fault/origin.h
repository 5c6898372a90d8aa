// Where values that are not finite come from.
#pragma once

#include <cstdint>
#include <string>

namespace convoy::train {

// Says what was the first that was not finite.
enum class FaultKind : std::int64_t {
  parameter,   // before the batch was run
  input,       // what the task has made of a sample
  activation,  // what a layer, or an operation of LibTorch, has put out
  loss,        // of outputs that are finite
  gradient     // that backward has made on its way through a layer, or an operation
};

// This is a place in a forward pass.
struct FaultPlace {
  std::string name = {};       // of the layer, as its path in the network
  std::string type = {};       // of the layer, for people: "Conv2d"
  std::string operation = {};  // as LibTorch calls it: "sqrt"; empty: none is known
  bool behind = false;   // it belongs to no layer that is known, and comes after this one, if any
  bool in_loss = false;  // no layer at all
};

// This is the first that was not finite. Of a parameter `place` has the name. Of an input it has
// "sample 7" as the name (empty where the sample is not known), what the data set calls it as the
// type, and as the operation the name of the tensor (TaskBatch::tensors).
struct FaultOrigin {
  FaultKind kind = FaultKind::activation;
  FaultPlace place = {};
  std::int64_t part = 0;   // the micro-batch, from 0
  std::int64_t order = 0;  // in the micro-batch: what has a smaller number came first
};

}  // namespace convoy::train
