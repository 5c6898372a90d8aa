// What a training is without ranks, without a trainer and without micro-batches: a plain loop over
// whole batches.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/data/dataset.h"
#include "convoy/data/epoch_order.h"
#include "convoy/model/network.h"
#include "convoy/model/randomness.h"
#include "convoy/model/stage.h"
#include "convoy/train/state.h"

namespace convoy::train::testing_data {

// Pictures of noise, brighter by their class.
class Noise final : public data::Dataset {
 public:
  Noise(data::Shape shape, std::size_t size)
      : shape_(shape), classes_{"a", "b", "c"}, size_(size), each_(shape.elements()) {
    pixels_.resize(size_ * each_);
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      pixels_[i] = static_cast<float>(RandomStream(5, i).uniform() - 0.5) +
                   0.3f * static_cast<float>(label(i / each_));
    }
  }
  std::size_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override {
    return {std::as_bytes(std::span(pixels_).subspan(i * each_, each_)), data::Encoding::planar_f32,
            shape_, label(i)};
  }
  std::string key(std::size_t i) const override { return "noise[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return each_; }

  torch::Tensor images(const std::vector<std::size_t>& samples) const {
    torch::Tensor all = torch::empty(
        {static_cast<std::int64_t>(samples.size()), shape_.channels, shape_.height, shape_.width});
    auto* out = static_cast<float*>(all.mutable_data_ptr());
    for (const std::size_t i : samples) {
      std::memcpy(out, pixels_.data() + i * each_, each_ * sizeof(float));
      out += each_;
    }
    return all;
  }

 private:
  data::Shape shape_;
  std::vector<std::string> classes_;
  std::size_t size_;
  std::size_t each_;
  std::vector<float> pixels_;
};

struct PlainLoop {
  std::size_t batch = 0;
  double rate = 0;  // of SGD with a momentum of 0.9
  int epochs = 1;
};

// Trains the network, whose seed is 1, and gives the loss of each step: that of the scores, and as
// much of that of auxiliary classifiers as the network says.
inline std::vector<double> train_plainly(model::Network& network, const Noise& data,
                                         const PlainLoop& how) {
  const torch::Dtype type = network.parameters().front().scalar_type();
  const model::Blueprint* const blueprint = network.blueprint();
  torch::optim::SGD optimizer(network.parameters(),
                              torch::optim::SGDOptions(how.rate).momentum(0.9));
  std::vector<double> losses;
  for (int epoch = 0; epoch < how.epochs; ++epoch) {
    const data::EpochOrder order(data.size(), 1, static_cast<std::uint64_t>(epoch));
    for (std::size_t begin = 0; begin < data.size(); begin += how.batch) {
      const auto samples = order.samples({begin, std::min(begin + how.batch, data.size())});
      std::vector<std::int64_t> of_samples;
      for (const std::size_t i : samples) of_samples.push_back(data.label(i));
      const torch::Tensor labels = torch::tensor(of_samples);
      const model::RandomScope scope(1, losses.size(), samples);
      optimizer.zero_grad();
      const model::Tensors outputs = network.run({data.images(samples).to(type)});
      torch::Tensor loss = torch::nn::functional::cross_entropy(outputs.at(0), labels);
      for (std::size_t i = 0; blueprint != nullptr && i < blueprint->auxiliary.size(); ++i) {
        loss = loss + blueprint->auxiliary[i] *
                          torch::nn::functional::cross_entropy(outputs.at(1 + i), labels);
      }
      losses.push_back(loss.item<double>());
      loss.backward();
      optimizer.step();
    }
  }
  network.zero_grad();
  return losses;
}

// Gives the largest difference of a parameter or buffer that was saved from the network's, as a
// part of the tensor's largest value.
inline double relative_difference_from(const model::Network& network, const State& saved) {
  const torch::NoGradGuard no_grad;
  double most = 0;
  std::size_t compared = 0;
  const auto compare = [&](const std::string& name, const torch::Tensor& wanted) {
    const torch::Tensor mine = saved.model.at(name).to(torch::kDouble);
    const torch::Tensor other = wanted.to(torch::kDouble);
    const double largest = std::max(other.abs().max().item<double>(), 1e-3);
    most = std::max(most, (mine - other).abs().max().item<double>() / largest);
    ++compared;
  };
  for (const auto& item : network.named_parameters()) compare(item.key(), item.value());
  for (const auto& item : network.named_buffers()) compare(item.key(), item.value());
  EXPECT_EQ(compared, saved.model.size());
  return most;
}

}  // namespace convoy::train::testing_data
