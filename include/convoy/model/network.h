// This is what every model of Convoy is: a torch::nn::Module with one forward.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <vector>

namespace convoy::model {

struct Blueprint;

// This is a network from a batch of images to one row of scores per image. It knows nothing of
// ranks, devices or optimizers; parallelism is declared outside of it.
//
// One whose forward is code trains whole. What is to be split, or described layer by layer, is a
// StagedNetwork (convoy/model/stage.h).
//
// Parameters and buffers are registered under torchvision's names where torchvision has the model.
// Not safe to call from two threads at once (batch normalization updates its statistics).
class Network : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  // images: [batch, channels, height, width], of the parameters' type. Any layout (contiguous or
  // channels-last); the layout of the images and of the weights decides which kernels run.
  // Returns the logits, [batch, classes], before any softmax. Throws c10::Error for a wrong shape.
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  // This is what a task with other samples than images calls: any number of tensors go in and come
  // out.
  virtual std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs) {
    return {forward(inputs.at(0))};
  }

  // Gives channels, height and width of the image that the network was published with. Others may
  // work: residual networks take any size from 32 x 32, AlexNet from 63 x 63, LeNet only its own.
  virtual std::array<std::int64_t, 3> image_shape() const = 0;

  virtual std::int64_t classes() const = 0;

  // Gives what it is made of; null: only its code knows.
  virtual const Blueprint* blueprint() const { return nullptr; }
};

}  // namespace convoy::model
