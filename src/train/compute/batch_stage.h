// Images that come to a device one batch ahead of their use, beside what is computed there.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "convoy/data/sample_source.h"
#include "parallel/device_copies.h"

namespace convoy::train {

// Gives the images of a batch as they lie in its memory, [size * views, channels, height, width],
// whatever their order there is. Valid as long as the batch.
torch::Tensor host_images(const data::Batch& batch);

// The images of one batch: where the host has them, and where the device has them.
struct StagedImages {
  torch::Tensor host;
  std::uint64_t number = 0;
  torch::Tensor there;
  std::unique_ptr<parallel::DeviceCopies::Copy> copy;  // null: done
  bool joined = false;
};

// Holds two batches: that in use, and the one after it. Any thread, and one that computes.
class BatchStage {
 public:
  BatchStage(std::unique_ptr<parallel::DeviceCopies> copies, const torch::Device& device);
  // Waits as drop() does.
  ~BatchStage();
  BatchStage(const BatchStage&) = delete;
  BatchStage& operator=(const BatchStage&) = delete;

  // Begins to bring the images of the batch of this number (data::Batch::number), after the one in
  // use. Their memory is read until the call of advance() after that which makes it the one in use.
  // Throws c10::OutOfMemoryError where the device has none for them; nothing is staged then.
  void begin(const torch::Tensor& host, std::uint64_t number);
  // Gives the images on the device: those that were brought there, or else brought now, which the
  // host waits for. These stay for the other calls for the batch in use.
  torch::Tensor images(const torch::Tensor& host, std::uint64_t number);
  // The batch in use is done with, and the next one is in use. Returns when nothing reads the
  // memory of the former.
  void advance();
  // Forgets both. Returns when nothing reads their memory.
  void drop();
  // The same where nothing may be thrown.
  void drop_at_an_end() noexcept;

 private:
  static void finish(std::optional<StagedImages>& staged);

  std::unique_ptr<parallel::DeviceCopies> copies_;
  torch::Device device_;
  std::mutex mutex_;
  std::optional<StagedImages> current_, next_;
  bool advances_ = false;  // somebody says which batch is in use
};

// Goes through a source, and has the stage (null: none) bring what comes next. Drops what is left
// in the stage when it begins, and at its end. One thread.
class Prefetch {
 public:
  Prefetch(std::shared_ptr<BatchStage> stage, data::SampleSource& samples);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // As that of the source.
  const data::Batch* next();
  // To be called once in each batch, when the device has got the first work of it or is about to.
  void look_ahead();

 private:
  std::shared_ptr<BatchStage> stage_;
  data::SampleSource& samples_;
};

}  // namespace convoy::train
