// What this plugin teaches `convoy train`: what plugin.toml, digits.toml and edges.toml name.
#include <convoy/base/error.h>
#include <convoy/model/network.h>
#include <convoy/train/plugin.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "digits.h"
#include "edges.h"
#include "lion.h"
#include "stripes.h"

namespace {

// Two convolutions and the mean over the picture, so any size from 4 x 4 will do.
class SmallNet final : public convoy::model::Network {
 public:
  SmallNet(std::int64_t channels, std::int64_t width, std::int64_t classes)
      : Network("SmallNet"),
        conv1_(register_module("conv1", conv(channels, width))),
        conv2_(register_module("conv2", conv(width, 2 * width))),
        fc_(register_module("fc", torch::nn::Linear(2 * width, classes))) {}

  torch::Tensor forward(torch::Tensor images) override {
    auto x = torch::max_pool2d(conv1_(images).relu_(), 2);
    x = conv2_(x).relu_().mean({2, 3});
    return fc_(x);
  }
  std::array<std::int64_t, 3> image_shape() const override {
    return {conv1_->options.in_channels(), 24, 24};
  }
  std::int64_t classes() const override { return fc_->options.out_features(); }

 private:
  static torch::nn::Conv2d conv(std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 5).padding(2));
  }

  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc_;
};

}  // namespace

CONVOY_PLUGIN(registry) {
  using convoy::train::ModelRequest;
  using convoy::train::Options;
  using convoy::train::ResumeRule;

  registry.add_model(
      "small_net",
      [](const ModelRequest& request) {
        const std::int64_t width = request.options.integer("width");
        if (width < 1) {
          throw convoy::UsageError("model.options.width is " + std::to_string(width) +
                                   "; it has to be at least 1");
        }
        return std::make_shared<SmallNet>(request.image.channels, width, request.classes);
      },
      {{"width", std::int64_t{8}, "maps of the first convolution"}});

  // A default's type is the key's type: 2000 alone would be an int, which no key can be.
  registry.add_reader("stripes",
                      [](const Options& options) {
                        return draw_stripes(options.integer("samples"), options.integer("seed"),
                                            options.number("noise"));
                      },
                      {{"samples", std::int64_t{2000}, "pictures to draw"},
                       {"seed", std::int64_t{1}, "other pictures for another number"},
                       {"noise", 0.3, "largest disturbance of a pixel, 0 to 1"}});

  convoy::train::OptimizerKind kind;
  kind.name = "lion";
  kind.doc = "signs of a mean of gradients (Chen et al. 2023)";
  kind.options = {{.key = "beta1",
                   .initial = 0.9,
                   .doc = "share of the past in what a step goes by",
                   .resume = ResumeRule::free},
                  {.key = "beta2",
                   .initial = 0.99,
                   .doc = "share of the past in what is kept",
                   .resume = ResumeRule::free}};
  registry.add_optimizer(kind, [](const convoy::train::OptimizerRequest& request) {
    return lion(request.options.number("beta1"), request.options.number("beta2"),
                request.weight_decay);
  });

  convoy::train::ScheduleKind root;
  root.name = "inverse_root";
  root.doc = "the rate divided by the root of how often slow has passed";
  root.options = {{.key = "slow",
                   .initial = 1.0,
                   .doc = "how long the rate stays as it is, in unit",
                   .resume = ResumeRule::free,
                   .check = [](const convoy::train::Value& value) -> std::string {
                     return std::get<double>(value) > 0 ? "" : "has to be above 0";
                   }}};
  root.rate = [](const convoy::train::ScheduleRequest& now) {
    const double passed = now.time / now.options.number("slow");
    return passed > 1 ? now.lr / std::sqrt(passed) : now.lr;
  };
  registry.add_schedule(root);

  add_digits(registry);
  add_edges(registry);
}
