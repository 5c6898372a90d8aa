// Trains LeNet on MNIST and prints the test accuracy after each epoch.
// Arguments: the folder of MNIST's four files (uncompressed), and the number of epochs (3).
#include <convoy/convoy.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

using torch::data::make_data_loader;
using torch::data::datasets::MNIST;
namespace nn = torch::nn;

struct LeNet : nn::Module {
  nn::Conv2d conv1 = register_module("conv1", nn::Conv2d(1, 20, 5));
  nn::Conv2d conv2 = register_module("conv2", nn::Conv2d(20, 50, 5));
  nn::Linear fc1 = register_module("fc1", nn::Linear(800, 500));
  nn::Linear fc2 = register_module("fc2", nn::Linear(500, 10));

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(conv1(x), 2);
    x = torch::max_pool2d(conv2(x), 2);
    return fc2(torch::relu(fc1(x.flatten(1))));
  }
};

auto load(const std::string& folder, MNIST::Mode mode) {
  return MNIST(folder, mode)
      .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
      .map(torch::data::transforms::Stack<>());
}

double accuracy(LeNet& net, const std::string& folder) {
  torch::NoGradGuard no_grad;
  auto data = load(folder, MNIST::Mode::kTest);
  const std::size_t size = *data.size();
  auto loader = make_data_loader(data, torch::data::samplers::SequentialSampler(size), 500);
  double right = 0;
  for (auto& batch : *loader) {
    right += net.forward(batch.data).argmax(1).eq(batch.target).sum().item<double>();
  }
  return 100 * right / static_cast<double>(size);
}

void train(const std::string& folder, int epochs) {
  auto data = load(folder, MNIST::Mode::kTrain);
  const std::size_t size = *data.size();
  auto world = convoy::World::join();
  torch::manual_seed(1);
  auto net = std::make_shared<LeNet>();
  convoy::DistributedModel<LeNet> model(world, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  auto loader = make_data_loader(data, convoy::DistributedSampler(size, world), 64 / world.size());
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      auto output = model.forward(batch.data);
      torch::cross_entropy_loss(output, batch.target).backward();
      optimizer.step();
    }
    model.finish_epoch([&] { optimizer.step(); });
    if (world.rank() != 0) continue;
    std::cout << "epoch " << epoch << ": test accuracy " << accuracy(*net, folder) << "%"
              << std::endl;
  }
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: " << argv[0] << " FOLDER [EPOCHS]" << std::endl;
    return 2;
  }
  try {
    train(argv[1], argc == 3 ? std::atoi(argv[2]) : 3);
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << std::endl;
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
