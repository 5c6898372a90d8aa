#include "convoy/train/compute.h"

#include <mutex>
#include <string>

#include "convoy/base/log.h"
#include "convoy/train/layout.h"
#include "parallel/device_copies.h"
#include "train/compute/batch_stage.h"
#include "train/compute/gpu.h"

namespace convoy::train {
namespace {

// The host waits for copies from and to ordinary memory, and that is all.
void say_not_pinned(const c10::Error& error) {
  static std::once_flag said;
  std::call_once(said, [&error] {
    const std::string text = error.what_without_backtrace();
    Log().warning(
        "no memory can be pinned for copies to the GPU, which take longer without it; "
        "LibTorch says: " +
        text.substr(0, text.find('\n')));
  });
}

torch::Tensor pinned(const torch::Tensor& tensor) {
  try {
    return tensor.pin_memory();
  } catch (const c10::Error& error) {
    say_not_pinned(error);
    return tensor;
  }
}

torch::Tensor new_pinned(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const auto options = torch::TensorOptions().dtype(torch::kByte);
  try {
    return torch::empty({size}, options.pinned_memory(true));
  } catch (const c10::Error& error) {
    say_not_pinned(error);
    return torch::empty({size}, options);
  }
}

}  // namespace

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
  return images(batch, {0, batch.size()});
}

torch::Tensor Compute::images(const data::Batch& batch, data::Range rows) const {
  const auto part = [&](const torch::Tensor& images) {
    return images.narrow(0, static_cast<std::int64_t>(rows.begin) * batch.views,
                         static_cast<std::int64_t>(rows.size()) * batch.views);
  };
  const torch::Tensor all = host_images(batch);
  if (!stage_) return part(all).to(device_, type_);
  // As they are stored, which may be a quarter of the bytes, and converted there.
  return part(stage_->images(all, batch.number)).to(type_);
}

torch::Tensor Compute::labels(std::span<const std::int64_t> labels) const {
  // Copied: a loss may keep them longer than the batch.
  const torch::Tensor copy =
      torch::tensor(at::ArrayRef<std::int64_t>(labels.data(), labels.size()), torch::kLong);
  if (device_.is_cpu()) return copy;
  return pinned(copy).to(torch::TensorOptions().device(device_), /*non_blocking=*/true);
}

torch::Tensor Compute::blank(const data::Shape& shape) const {
  const auto options = torch::TensorOptions().device(device_).dtype(type_);
  const torch::Tensor image = torch::zeros({1, shape.channels, shape.height, shape.width}, options);
  return layout_ == data::Layout::planar ? image : image.contiguous(at::MemoryFormat::ChannelsLast);
}

std::function<std::shared_ptr<std::byte>(std::size_t bytes)> Compute::batch_memory() const {
  if (device_.is_cpu()) return {};
  return [](std::size_t bytes) {
    const auto memory = std::make_shared<torch::Tensor>(new_pinned(bytes));
    return std::shared_ptr<std::byte>(memory, static_cast<std::byte*>(memory->data_ptr()));
  };
}

}  // namespace convoy::train
