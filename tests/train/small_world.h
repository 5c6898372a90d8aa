// A data set and a network that train in no time.
#pragma once

#include <torch/torch.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/data/dataset.h"
#include "convoy/model/network.h"
#include "convoy/train/registry.h"

namespace convoy::train::testing_data {

// Images of 1 x 6 x 6 floats whose mean tells the class.
class Stripes final : public data::Dataset {
 public:
  static constexpr data::Shape kShape{1, 6, 6};

  explicit Stripes(std::size_t size) : classes_{"dark", "gray", "light"}, pixels_(size * 36) {
    for (std::size_t i = 0; i < size; ++i) {
      RandomStream random(3, i);
      for (std::size_t p = 0; p < 36; ++p) {
        pixels_[i * 36 + p] =
            static_cast<float>(random.uniform() + 0.4 * static_cast<double>(label(i)));
      }
    }
  }
  std::size_t size() const override { return pixels_.size() / 36; }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override {
    return {std::as_bytes(std::span(pixels_).subspan(i * 36, 36)), data::Encoding::planar_f32,
            kShape, label(i)};
  }
  std::string key(std::size_t i) const override { return "stripes[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return size(); }

 private:
  std::vector<std::string> classes_;
  std::vector<float> pixels_;
};

// With batch normalization (statistics that differ between ranks) and dropout (random numbers).
class Small final : public model::Network {
 public:
  Small(std::int64_t classes, bool norm, double dropout) : classes_(classes), dropout_(dropout) {
    // Not in the order of use: the order in which gradients come has to be measured.
    fc_ = register_module("fc", torch::nn::Linear(64, classes));
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    if (norm) bn_ = register_module("bn", torch::nn::BatchNorm2d(4));
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = conv_(x);
    if (!bn_.is_empty()) x = bn_(x);
    x = torch::relu(x).flatten(1);
    if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    return fc_(x);
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  double dropout_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d bn_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

inline void add_small_world(Registry& registry) {
  registry.add_reader(
      "stripes",
      [](const Options& o) {
        return std::make_shared<Stripes>(static_cast<std::size_t>(o.integer("size")));
      },
      {{"size", std::int64_t{60}, "samples"}});
  registry.add_model("small",
                     [](const ModelRequest& r) {
                       return std::make_shared<Small>(r.classes, r.options.flag("norm"),
                                                      r.options.number("dropout"));
                     },
                     {{"norm", false, "batch normalization"}, {"dropout", 0.0, "its probability"}});
}

}  // namespace convoy::train::testing_data
