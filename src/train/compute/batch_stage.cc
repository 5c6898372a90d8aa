#include "train/compute/batch_stage.h"

#include <exception>
#include <utility>
#include <vector>

namespace convoy::train {

torch::Tensor host_images(const data::Batch& batch) {
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
  return torch::from_blob(batch.bytes.data(), {n, c, h, w}, strides, stored);
}

BatchStage::BatchStage(std::unique_ptr<parallel::DeviceCopies> copies, const torch::Device& device)
    : copies_(std::move(copies)), device_(device) {}

BatchStage::~BatchStage() { drop_at_an_end(); }

void BatchStage::begin(const torch::Tensor& host, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  finish(next_);
  StagedImages next;  // where there is no memory for it nothing is staged
  next.host = host;
  next.number = number;
  next.there = at::empty_strided(host.sizes(), host.strides(), host.options().device(device_));
  next.copy = copies_->start(next.there, host);
  next_ = std::move(next);
}

torch::Tensor BatchStage::images(const torch::Tensor& host, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  for (std::optional<StagedImages>* staged : {&current_, &next_}) {
    // The memory alone may hold another batch by now.
    if (!*staged || (*staged)->number != number || number == 0 ||
        (*staged)->host.data_ptr() != host.data_ptr() || (*staged)->host.sizes() != host.sizes())
      continue;
    if (!std::exchange((*staged)->joined, true)) (*staged)->copy->join();
    return (*staged)->there;
  }
  const torch::Tensor there = host.to(device_);
  if (advances_ && !current_ && number != 0) {
    // The other micro-batches of this batch ask for it as well.
    StagedImages& current = current_.emplace();
    current.host = host;
    current.number = number;
    current.there = there;
    current.joined = true;
  }
  return there;
}

void BatchStage::advance() {
  const std::lock_guard lock(mutex_);
  finish(current_);
  current_ = std::exchange(next_, std::nullopt);
  advances_ = true;
}

void BatchStage::drop() {
  const std::lock_guard lock(mutex_);
  advances_ = false;
  finish(current_);
  finish(next_);
}

// A device that fails has said so to whoever computes on it.
void BatchStage::drop_at_an_end() noexcept {
  try {
    drop();
  } catch (const std::exception&) {
  }
}

void BatchStage::finish(std::optional<StagedImages>& staged) {
  if (staged && staged->copy) parallel::wait_until_done(*staged->copy);
  staged.reset();
}

Prefetch::Prefetch(std::shared_ptr<BatchStage> stage, data::SampleSource& samples)
    : stage_(std::move(stage)), samples_(samples) {
  if (stage_) stage_->drop();
}

Prefetch::~Prefetch() {
  if (stage_) stage_->drop_at_an_end();
}

const data::Batch* Prefetch::next() {
  if (stage_) stage_->advance();
  return samples_.next();
}

void Prefetch::look_ahead() {
  if (!stage_) return;
  const data::Batch* const batch = samples_.upcoming();
  if (batch == nullptr || batch->number == 0 || batch->bytes.empty()) return;
  try {
    stage_->begin(host_images(*batch), batch->number);
  } catch (const c10::OutOfMemoryError&) {
    // The step may need all that is left. The batch comes when it is asked for.
  }
}

}  // namespace convoy::train
