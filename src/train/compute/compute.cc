#include "convoy/train/compute.h"

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

void Compute::place(torch::nn::Module& network) const {
  network.to(device_, type_);
  if (layout_ == data::Layout::channels_last) to_channels_last(network);
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

torch::Tensor Compute::labels(std::span<const std::int64_t> labels) const {
  // Copied: a loss may keep them longer than the batch.
  return torch::tensor(at::ArrayRef<std::int64_t>(labels.data(), labels.size()), torch::kLong)
      .to(device_);
}

torch::Tensor Compute::blank(const data::Shape& shape) const {
  const auto options = torch::TensorOptions().device(device_).dtype(type_);
  const torch::Tensor image = torch::zeros({1, shape.channels, shape.height, shape.width}, options);
  return layout_ == data::Layout::planar ? image : image.contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace convoy::train
