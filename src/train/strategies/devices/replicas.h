// Whether a rank can have several replicas of a network, and where each of them is.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/model/network.h"
#include "convoy/train/compute.h"
#include "convoy/train/task.h"
#include "train/strategies/devices/options.h"

namespace convoy::train {

// Throws UsageError, on all ranks, where one has no memory for so many replicas on the CPU:
// weights, gradients and buffers of those besides the first, which is there. `ranks` share the
// host. Collective.
void check_replicas_fit(const comm::Communicator& all, const torch::nn::Module& first,
                        const Recipe& recipe, int ranks);

// What LibTorch's default generator of a device is at. It is one for all threads: what several of
// them draw from it depends on who comes first.
class GeneratorState {
 public:
  explicit GeneratorState(const torch::Device& device);
  // Throws UsageError where somebody has drawn from it since.
  void check_untouched(const std::string& model) const;

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

// Throws UsageError where the network draws from that generator in training, as far as it can be
// tried with made-up samples. Changes nothing of it.
void check_draws_nothing(model::Network& network, const Task& task, const Compute& compute,
                         const std::string& model);

// Says which device each replica of this rank is on. Throws UsageError naming one that is not
// there, and where batch normalization is to be synchronized over devices that share a GPU: they
// also share the thread that LibTorch computes gradients in, and would wait for each other.
std::vector<torch::Device> places_of_devices(const comm::World& world, const Recipe& recipe,
                                             const torch::Device& device, bool synchronized);

}  // namespace convoy::train
