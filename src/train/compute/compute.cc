#include "convoy/train/compute.h"

#include "convoy/train/layout.h"
#include "parallel/device_copies.h"
#include "train/compute/batch_stage.h"
#include "train/compute/gpu.h"

namespace convoy::train {

Compute::Compute(const Recipe& recipe, int local_rank)
    : device_(open_device(recipe.device, local_rank)),
      type_(recipe.precision == "float64" ? torch::kDouble : torch::kFloat),
      autocast_(recipe.precision == "bfloat16"),
      layout_(recipe.model.channels_last ? data::Layout::channels_last : data::Layout::planar) {
  if (device_.is_cpu()) return;
  set_gpu_arithmetic(recipe);
  stage_ = std::make_shared<BatchStage>(parallel::copies_of(device_), device_);
}

void Compute::place(torch::nn::Module& network) const {
  network.to(device_, type_);
  if (layout_ == data::Layout::channels_last) to_channels_last(network);
}

torch::Tensor Compute::images(const data::Batch& batch) const {
  const torch::Tensor images = host_images(batch);
  if (!stage_) return images.to(device_, type_);
  // As they are stored, which may be a quarter of the bytes, and converted there.
  return stage_->images(images, batch.number).to(type_);
}

torch::Tensor Compute::labels(std::span<const std::int64_t> labels) const {
  // Copied: a loss may keep them longer than the batch.
  const torch::Tensor copy =
      torch::tensor(at::ArrayRef<std::int64_t>(labels.data(), labels.size()), torch::kLong);
  if (device_.is_cpu()) return copy;
  return copy.pin_memory().to(torch::TensorOptions().device(device_), /*non_blocking=*/true);
}

torch::Tensor Compute::blank(const data::Shape& shape) const {
  const auto options = torch::TensorOptions().device(device_).dtype(type_);
  const torch::Tensor image = torch::zeros({1, shape.channels, shape.height, shape.width}, options);
  return layout_ == data::Layout::planar ? image : image.contiguous(at::MemoryFormat::ChannelsLast);
}

std::function<std::shared_ptr<std::byte>(std::size_t bytes)> Compute::batch_memory() const {
  if (device_.is_cpu()) return {};
  return [](std::size_t bytes) {
    const auto options = torch::TensorOptions().dtype(torch::kByte).pinned_memory(true);
    const auto memory =
        std::make_shared<torch::Tensor>(torch::empty({static_cast<std::int64_t>(bytes)}, options));
    return std::shared_ptr<std::byte>(memory, static_cast<std::byte*>(memory->data_ptr()));
  };
}

}  // namespace convoy::train
