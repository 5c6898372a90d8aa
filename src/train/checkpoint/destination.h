// Where elements go that are read from a file.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <string>

#include "convoy/base/slice.h"
#include "convoy/train/state.h"

namespace convoy::train {

// "[2, 3]", for messages.
std::string shape_text(at::IntArrayRef shape);

// Takes a slice of a tensor piece by piece, and puts it straight into a tensor of the network where
// that lies in memory as it does in files: on the CPU, contiguous, of the same type. For others
// there is a copy from the first piece until finish(). One thread at a time.
class Destination {
 public:
  // Into memory of its own. `type` is the file's, as in safetensors files.
  Destination(Slice slice, const std::string& type);
  // Into `tensor`, which has the size of the slice.
  Destination(Slice slice, const std::string& type, torch::Tensor tensor);

  const Slice& slice() const { return slice_; }
  // What is filled, once finish() has been called.
  const torch::Tensor& tensor() const { return tensor_; }

  // What this has of a piece, whose elements are `bytes`.
  void take(const Slice& piece, std::span<const std::byte> bytes);
  // After the last piece, also where there was none.
  void finish();

 private:
  Slice slice_;
  at::ScalarType type_;
  std::size_t element_;
  torch::Tensor tensor_;
  bool straight_ = true;
  torch::Tensor copy_;
};

// The tensors of a module by all of their names.
Tensors all_tensors(const torch::nn::Module& module);

}  // namespace convoy::train
