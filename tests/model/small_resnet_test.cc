// The ResNet for small images against one written with LibTorch's own modules.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "tests/base/scratch.h"

namespace convoy::model {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1));
}

struct Block : nn::Module {
  Block(std::int64_t in, std::int64_t out, std::int64_t stride) : stride_(stride) {
    conv1 = register_module("conv1", conv(in, out, stride));
    bn1 = register_module("bn1", nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv(out, out, 1));
    bn2 = register_module("bn2", nn::BatchNorm2d(out));
  }
  // Option A: every second position, and zeros for the channels that there are more of.
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    torch::Tensor shortcut = x;
    if (stride_ > 1) {
      const auto half = torch::avg_pool2d(x, 1, stride_);
      shortcut = torch::cat({half, torch::zeros_like(half)}, 1);
    }
    return torch::relu(y + shortcut);
  }
  std::int64_t stride_;
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
};

struct Plain : nn::Module {
  Plain() {
    conv1 = register_module("conv1", conv(3, 16, 1));
    bn1 = register_module("bn1", nn::BatchNorm2d(16));
    std::int64_t channels = 16;
    for (int group = 1; group <= 3; ++group) {
      const std::int64_t width = 8 << group;
      nn::ModuleList blocks;
      for (int i = 0; i < 3; ++i) {
        all.push_back(std::make_shared<Block>(channels, width, group > 1 && i == 0 ? 2 : 1));
        blocks->push_back(all.back());
        channels = width;
      }
      register_module("layer" + std::to_string(group), blocks);
    }
    fc = register_module("fc", nn::Linear(64, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(bn1(conv1(x)));
    for (const auto& block : all) x = block->forward(x);
    return fc(x.mean({2, 3}));
  }
  nn::Conv2d conv1{nullptr};
  nn::BatchNorm2d bn1{nullptr};
  std::vector<std::shared_ptr<Block>> all;
  nn::Linear fc{nullptr};
};

void copy_weights(const nn::Module& from, nn::Module& to) {
  const torch::NoGradGuard no_grad;
  const auto theirs = from.named_parameters();
  const auto mine = to.named_parameters();
  ASSERT_EQ(mine.size(), theirs.size());
  for (const auto& item : mine) item.value().copy_(theirs[item.key()]);
}

// One training step, and an evaluation after it, in float64 and in both layouts.
TEST(SmallResNet, ComputesWhatLibTorchDoes) {
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    const auto network = make_model("resnet20", {}, 3);
    network->to(torch::kDouble);
    Plain plain;
    plain.to(torch::kDouble);
    copy_weights(*network, plain);
    torch::manual_seed(5);
    const auto images = torch::randn({4, 3, 32, 32}, torch::kDouble).contiguous(format);
    const auto labels = torch::tensor({3, 1, 4, 1}, torch::kLong);
    const auto scores = network->forward(images), wanted = plain.forward(images);
    EXPECT_LT((scores - wanted).abs().max().item<double>(), 1e-11);
    torch::cross_entropy_loss(scores, labels).backward();
    torch::cross_entropy_loss(wanted, labels).backward();
    const auto theirs = plain.named_parameters();
    for (const auto& item : network->named_parameters()) {
      const auto gradient = theirs[item.key()].grad();
      // A bias ahead of a normalization has none but rounding.
      const double scale = std::max(gradient.abs().max().item<double>(), 1e-3);
      EXPECT_LT((item.value().grad() - gradient).abs().max().item<double>() / scale, 1e-9)
          << item.key();
    }
    network->eval();
    plain.eval();
    const torch::NoGradGuard no_grad;
    const auto difference = network->forward(images) - plain.forward(images);
    EXPECT_LT(difference.abs().max().item<double>(), 1e-11);
  }
}

TEST(Subsample, KeepsEveryFewPositionsAndAddsZeros) {
  Stage stage({"s", {"x"}, {{"a", layer::Subsample{4, {2, 3}}, {"x"}, {}}}, {"a"}}, 1);
  const auto x = torch::arange(2 * 3 * 4 * 5, torch::kFloat).reshape({2, 3, 4, 5});
  const auto y = stage.forward({x}).front();
  ASSERT_EQ(y.sizes(), (std::vector<std::int64_t>{2, 4, 2, 2}));
  for (int channel = 0; channel < 3; ++channel) {
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 2; ++column)
        EXPECT_TRUE(y[1][channel][row][column].equal(x[1][channel][2 * row][3 * column]));
    }
  }
  EXPECT_EQ(y.select(1, 3).abs().sum().item<double>(), 0);
  const Node fewer{"a", layer::Subsample{2, {2, 2}}, {"x"}, {}};
  const std::vector<Shape> three{{3, 4, 4}};
  EXPECT_EQ(test::message_of<UsageError>([&] { output_shape(fewer, three); }),
            "layer 'a': adds channels up to 2, gets [3, 4, 4], which has more");
}

}  // namespace
}  // namespace convoy::model
