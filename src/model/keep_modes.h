// What a network's modules are in while it is only tried or used.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace convoy::model {

// Notes which modules of a network are in training mode, and puts each back into its own mode at
// its end: some may be in evaluation mode for good, as batch normalization that is frozen.
class KeepModes {
 public:
  explicit KeepModes(torch::nn::Module& network) : network_(network) { note(network); }
  ~KeepModes() {
    // A module takes its children along, which come behind it here.
    std::size_t next = 0;
    restore(network_, next);
  }
  KeepModes(const KeepModes&) = delete;
  KeepModes& operator=(const KeepModes&) = delete;

 private:
  void note(const torch::nn::Module& module) {
    training_.push_back(module.is_training());
    for (const auto& child : module.children()) note(*child);
  }
  void restore(torch::nn::Module& module, std::size_t& next) {
    const bool training = training_.at(next++);
    if (module.is_training() != training) module.train(training);
    for (const auto& child : module.children()) restore(*child, next);
  }

  torch::nn::Module& network_;
  std::vector<bool> training_;  // a module before its children
};

}  // namespace convoy::model
