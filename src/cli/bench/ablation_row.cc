#include "cli/bench/ablation_row.h"

#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/train/fused_optimizers.h"
#include "convoy/train/layout.h"
#include "convoy/train/memory.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

// The same in bench/peers/torch_step.py.
constexpr double kLearningRate = 1e-3;
constexpr std::uint64_t kSeed = 1;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const model::Network& network, bool fused) {
  const auto options = torch::optim::SGDOptions(kLearningRate).momentum(0.9).weight_decay(1e-4);
  if (fused) return std::make_unique<train::FusedSgd>(network.parameters(), options);
  return std::make_unique<torch::optim::SGD>(network.parameters(), options);
}

}  // namespace

void serve_ablation_row(const AblationRow& row) {
  if (row.allocator && !train::keep_large_blocks()) {
    throw Failure("the allocator that keeps large blocks can't be installed in this build");
  }
  train::set_threads(row.threads);
  torch::manual_seed(kSeed);
  // Residual blocks that start as the identity: from the usual start, a few steps of a residual
  // network amplify rounding to a percent of the loss, and curves could not be told apart.
  const model::ModelOptions options{.zero_init_residual = row.model.starts_with("resnet")};
  const model::Blueprint blueprint = row.image_size > 0
                                         ? model::make_blueprint(row.model, options, row.image_size)
                                         : model::make_blueprint(row.model, options);
  const auto network = std::make_shared<model::StagedNetwork>(blueprint, model::drawn_seed());
  const auto [channels, height, width] = network->image_shape();
  auto images = torch::randn({row.batch, channels, height, width});
  const auto labels = torch::randint(network->classes(), {row.batch}, torch::kLong);
  if (row.channels_last) {
    train::to_channels_last(*network);
    images = images.contiguous(torch::MemoryFormat::ChannelsLast);
  }
  const auto optimizer = make_optimizer(*network, row.fused);

  for (int steps = 0; std::cin >> steps;) {
    std::vector<double> losses;
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad();
      const auto loss = torch::cross_entropy_loss(network->forward(images), labels);
      loss.backward();
      optimizer->step();
      losses.push_back(loss.item<double>());
    }
    const double seconds = seconds_since(start);
    std::cout << nlohmann::json{{"seconds", seconds}, {"losses", losses}}.dump() << std::endl;
  }
}

}  // namespace convoy::cli
