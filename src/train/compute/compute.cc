#include "convoy/train/compute.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/train/layout.h"

namespace convoy::train {

Compute::Compute(const Recipe& recipe)
    : device_(recipe.device == "cuda" ? torch::kCUDA : torch::kCPU),
      type_(recipe.precision == "float64" ? torch::kDouble : torch::kFloat),
      autocast_(recipe.precision == "bfloat16"),
      layout_(recipe.model.channels_last ? data::Layout::channels_last : data::Layout::planar) {
  if (device_.is_cuda() && !torch::cuda::is_available()) {
    throw UsageError("device is cuda, but this LibTorch has none (see `convoy doctor`); use cpu");
  }
}

void Compute::place(model::Network& network) const {
  network.to(device_, type_);
  if (layout_ == data::Layout::channels_last) to_channels_last(network);
}

void Compute::check_takes(model::Network& network, const data::Shape& shape,
                          const std::string& name) const {
  const auto text = [](std::int64_t c, std::int64_t h, std::int64_t w) {
    return std::to_string(c) + " x " + std::to_string(h) + " x " + std::to_string(w);
  };
  const torch::NoGradGuard no_grad;
  const bool training = network.is_training();
  network.eval();
  std::string problem;
  try {
    network.forward(blank(shape));
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  }
  network.train(training);
  if (problem.empty()) return;
  const auto [c, h, w] = network.image_shape();
  throw UsageError("the model '" + name + "' can't take images of " +
                   text(shape.channels, shape.height, shape.width) + "; it is made for " +
                   text(c, h, w) + " (see data.size and data.channels). LibTorch says: " +
                   problem.substr(0, problem.find('\n')));
}

std::size_t Compute::least_samples(model::Network& network, const data::Shape& shape) const {
  const torch::NoGradGuard no_grad;
  const bool training = network.is_training();
  std::vector<std::pair<torch::Tensor, torch::Tensor>> before;  // buffers, and what was in them
  for (const torch::Tensor& buffer : network.buffers()) {
    if (buffer.defined()) before.emplace_back(buffer, buffer.clone());
  }
  auto random = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random_state = random.get_state();
  network.train();
  const auto takes = [&](std::int64_t images) {
    try {
      network.forward(blank(shape).repeat({images, 1, 1, 1}));
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  };
  const std::size_t least = !takes(1) && takes(2) ? 2 : 1;
  network.train(training);
  random.set_state(random_state);
  for (auto& [buffer, values] : before) buffer.copy_(values);
  return least;
}

torch::Tensor Compute::images(const data::Batch& batch) const {
  const auto n = static_cast<std::int64_t>(batch.size()) * batch.views;
  const std::int64_t c = batch.shape.channels, h = batch.shape.height, w = batch.shape.width;
  const bool planar = batch.layout == data::Layout::planar;
  // [n, c, h, w] either way; strides say where the elements are.
  const std::vector<std::int64_t> strides = planar
                                                ? std::vector<std::int64_t>{c * h * w, h * w, w, 1}
                                                : std::vector<std::int64_t>{c * h * w, 1, w * c, c};
  const at::ScalarType stored = batch.pixel == data::Pixel::f32    ? torch::kFloat
                                : batch.pixel == data::Pixel::bf16 ? torch::kBFloat16
                                                                   : torch::kByte;
  const torch::Tensor images = torch::from_blob(batch.bytes.data(), {n, c, h, w}, strides, stored);
  return images.to(device_, type_);
}

torch::Tensor Compute::labels(const data::Batch& batch) const {
  // Copied: a loss may keep them longer than the batch.
  return torch::tensor(at::ArrayRef<std::int64_t>(batch.labels.data(), batch.labels.size()),
                       torch::kLong)
      .to(device_);
}

torch::Tensor Compute::blank(const data::Shape& shape) const {
  const auto options = torch::TensorOptions().device(device_).dtype(type_);
  const torch::Tensor image = torch::zeros({1, shape.channels, shape.height, shape.width}, options);
  return layout_ == data::Layout::planar ? image : image.contiguous(at::MemoryFormat::ChannelsLast);
}

torch::Tensor Compute::scores(const torch::Tensor& logits) const {
  return logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
}

torch::Tensor mean_of_views(const LossRecipe& recipe, const torch::Tensor& scores, int views) {
  if (views == 1) return scores;
  const torch::Tensor by_sample = scores.reshape({-1, views, scores.size(1)});
  if (recipe.name == "one_vs_all") return by_sample.sigmoid().mean(1).logit(1e-7);
  return by_sample.log_softmax(2).logsumexp(1) - std::log(static_cast<double>(views));
}

torch::Tensor loss_of(const LossRecipe& recipe, const torch::Tensor& scores,
                      const torch::Tensor& labels) {
  namespace F = torch::nn::functional;
  if (recipe.name == "one_vs_all") {
    // An independent logistic output per class (Krizhevsky 2014, Dean et al. 2012): summed over
    // classes, averaged over samples.
    torch::Tensor targets = torch::zeros_like(scores).scatter_(1, labels.unsqueeze(1), 1.0);
    if (recipe.label_smoothing > 0) {
      targets = targets * (1 - recipe.label_smoothing) + recipe.label_smoothing / 2;
    }
    return F::binary_cross_entropy_with_logits(
               scores, targets,
               F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum)) /
           scores.size(0);
  }
  return F::cross_entropy(scores, labels,
                          F::CrossEntropyFuncOptions().label_smoothing(recipe.label_smoothing));
}

}  // namespace convoy::train
