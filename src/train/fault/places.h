// Which layer of a network computes, asked from within LibTorch.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "convoy/model/stage.h"
#include "train/fault/origin.h"

namespace convoy::train {

// Gives the last name of a C++ type, as people call the layer: "Conv2d" of "torch::nn::Conv2dImpl".
std::string short_type_name(const std::string& type);

// Modules have no hooks in C++. So the layer of an operation is that whose parameters or buffers it
// takes; in a network of stages, of operations that take none, that which the stage computes. What
// is left comes behind the last layer that was seen. One thread.
class FaultPlaces {
 public:
  // Refers to the network, whose stages it observes as long as it lives.
  explicit FaultPlaces(torch::nn::Module& network);
  ~FaultPlaces();
  FaultPlaces(const FaultPlaces&) = delete;
  FaultPlaces& operator=(const FaultPlaces&) = delete;

  // The forward pass of a micro-batch begins, and, when its outputs are there, the loss.
  void begin_forward();
  void begin_loss();
  // An operation begins, within no other one, which takes these tensors; and ends.
  FaultPlace begin_operation(const std::vector<at::Tensor>& inputs, const std::string& operation);
  void end_operation();

  // Gives the place between operations.
  FaultPlace here() const;
  // Gives the place at which this micro-batch made the node of autograd's graph with this number
  // (Node::sequence_nr).
  FaultPlace of_node(std::uint64_t sequence_number) const;

 private:
  struct Layer {
    std::string path, type;
  };
  // Nodes that are made from here on, up to the next mark, are of this place.
  struct Mark {
    std::uint64_t sequence_number;
    FaultPlace place;
  };
  void add(const std::string& path, const torch::nn::Module& module);
  void observe(const model::Node& node, bool begins);
  void mark(FaultPlace place);

  std::unordered_map<const c10::TensorImpl*, Layer> layers_;  // by their parameters and buffers
  std::vector<std::shared_ptr<model::Stage>> stages_;         // that are observed
  std::optional<Layer> current_;                              // of a stage
  Layer last_;
  bool in_loss_ = false;
  std::vector<Mark> marks_;  // in the order of their numbers
};

}  // namespace convoy::train
