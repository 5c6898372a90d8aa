// A data set and a network that train in no time.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/dataset.h"
#include "convoy/model/network.h"
#include "convoy/train/registry.h"

namespace convoy::train::testing_data {

// Images of 1 x 6 x 6 floats whose mean tells the class.
class Stripes final : public data::Dataset {
 public:
  static constexpr data::Shape kShape{1, 6, 6};

  // Records first, first + every, ... can't be decoded; every = 0: all can.
  struct Bad {
    std::size_t first = 0;
    std::size_t every = 0;
  };

  explicit Stripes(std::size_t size) : Stripes(size, Bad()) {}
  Stripes(std::size_t size, Bad bad, std::vector<std::string> classes = {"dark", "gray", "light"})
      : classes_(std::move(classes)), bad_(bad), pixels_(size * 36) {
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
    if (bad_.every > 0 && i >= bad_.first && (i - bad_.first) % bad_.every == 0)
      throw UsageError("it is bad");
    return {std::as_bytes(std::span(pixels_).subspan(i * 36, 36)), data::Encoding::planar_f32,
            kShape, label(i)};
  }
  std::string key(std::size_t i) const override { return "stripes[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return size(); }

 private:
  std::vector<std::string> classes_;
  Bad bad_;
  std::vector<float> pixels_;
};

// What networks were asked for, and how long they take.
struct Calls {
  int training = 0;  // forward passes
  int evaluation = 0;
  std::chrono::milliseconds pause{0};  // in each of training
  std::function<void()> on_training;   // called in each, if there is one
};

// With batch normalization (statistics that differ between ranks) and dropout (random numbers).
class Small final : public model::Network {
 public:
  // pooled: what the last layer sees is one value per map, normalized; a batch of one image can't
  // train it.
  Small(std::int64_t classes, bool norm, double dropout, bool pooled = false,
        std::shared_ptr<Calls> calls = nullptr)
      : classes_(classes), dropout_(dropout), calls_(std::move(calls)) {
    // Not in the order of use: the order in which gradients come has to be measured.
    fc_ = register_module("fc", torch::nn::Linear(pooled ? 4 : 64, classes));
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    if (norm) bn_ = register_module("bn", torch::nn::BatchNorm2d(4));
    if (pooled) last_bn_ = register_module("last_bn", torch::nn::BatchNorm2d(4));
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (calls_) ++(is_training() ? calls_->training : calls_->evaluation);
    if (calls_ && is_training()) std::this_thread::sleep_for(calls_->pause);
    if (calls_ && is_training() && calls_->on_training) calls_->on_training();
    x = conv_(x);
    if (!bn_.is_empty()) x = bn_(x);
    x = torch::relu(x);
    if (!last_bn_.is_empty()) x = last_bn_(x.mean({2, 3}, true));
    x = x.flatten(1);
    if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    return fc_(x);
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  double dropout_;
  std::shared_ptr<Calls> calls_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d bn_{nullptr};
  torch::nn::BatchNorm2d last_bn_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

// Under the names stripes and small, and another of each.
inline void add_small_world(Registry& registry, const std::shared_ptr<Calls>& calls = nullptr) {
  for (const char* name : {"stripes", "stripes2"}) {
    registry.add_reader(
        name,
        [](const Options& o) {
          return std::make_shared<Stripes>(
              static_cast<std::size_t>(o.integer("size")),
              Stripes::Bad{static_cast<std::size_t>(o.integer("bad_first")),
                           static_cast<std::size_t>(o.integer("bad_every"))},
              o.texts("classes"));
        },
        {{"size", std::int64_t{60}, "samples"},
         {"bad_first", std::int64_t{0}, "the first that can't be decoded"},
         {"bad_every", std::int64_t{0}, "and all so many after it; 0: none"},
         {"classes", std::vector<std::string>{"dark", "gray", "light"}, "their names"},
         {"path", std::string(), "a file that has to be there", Option::Kind::path}});
  }
  for (const char* name : {"small", "small2"}) {
    registry.add_model(name,
                       [calls](const ModelRequest& r) {
                         return std::make_shared<Small>(r.classes, r.options.flag("norm"),
                                                        r.options.number("dropout"),
                                                        r.options.flag("pooled"), calls);
                       },
                       {{"norm", false, "batch normalization"},
                        {"dropout", 0.0, "its probability"},
                        {"pooled", false, "one value per map, normalized"}});
  }
}

}  // namespace convoy::train::testing_data
