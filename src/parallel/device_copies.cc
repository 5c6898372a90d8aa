#include "parallel/device_copies.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <thread>
#include <utility>

namespace convoy::parallel {
namespace {

class DoneCopy final : public DeviceCopies::Copy {
 public:
  bool done() override { return true; }
  void join() override {}
};

class CopiesAtOnce final : public DeviceCopies {
 public:
  std::unique_ptr<Copy> start(const at::Tensor& to, const at::Tensor& from) override {
    const torch::NoGradGuard no_grad;
    to.copy_(from);
    return std::make_unique<DoneCopy>();
  }
  at::Tensor host_memory(std::int64_t elements, at::ScalarType type) override {
    return at::empty({elements}, at::TensorOptions().dtype(type));
  }
  at::Tensor device_memory(std::int64_t elements, at::ScalarType type) override {
    return host_memory(elements, type);
  }
};

// Of a device that LibTorch's libraries for CPUs know by what others have registered.
class StreamCopy final : public DeviceCopies::Copy {
 public:
  StreamCopy(const at::Device& device, at::Tensor to, at::Tensor from)
      : guard_(device.type()),
        device_(device),
        to_(std::move(to)),
        from_(std::move(from)),
        end_(device.type()) {}

  // On the stream that is current.
  void run(const c10::Stream& stream) {
    to_.copy_(from_, /*non_blocking=*/true);
    end_.record(stream);
  }
  bool done() override { return end_.query(); }
  void join() override { end_.block(guard_.getStream(device_)); }

 private:
  c10::impl::VirtualGuardImpl guard_;
  at::Device device_;
  at::Tensor to_, from_;
  c10::Event end_;
};

class CopiesOnStream final : public DeviceCopies {
 public:
  explicit CopiesOnStream(const at::Device& device)
      : guard_(device.type()), device_(device), stream_(guard_.getStreamFromGlobalPool(device)) {}

  std::unique_ptr<Copy> start(const at::Tensor& to, const at::Tensor& from) override {
    const torch::NoGradGuard no_grad;
    c10::Event given(device_.type());
    given.record(guard_.getStream(device_));
    auto copy = std::make_unique<StreamCopy>(device_, to, from);
    {
      const c10::StreamGuard on(stream_);
      given.block(stream_);
      copy->run(stream_);
    }
    // Freed meanwhile, the memory is not for others before the copy is done.
    const at::Tensor& there = to.is_cpu() ? from : to;
    if (!there.is_cpu()) there.record_stream(stream_);
    return copy;
  }
  at::Tensor host_memory(std::int64_t elements, at::ScalarType type) override {
    return at::empty({elements}, at::TensorOptions().dtype(type).pinned_memory(true));
  }
  at::Tensor device_memory(std::int64_t elements, at::ScalarType type) override {
    return at::empty({elements}, at::TensorOptions().dtype(type).device(device_));
  }

 private:
  c10::impl::VirtualGuardImpl guard_;
  at::Device device_;
  c10::Stream stream_;
};

}  // namespace

std::unique_ptr<DeviceCopies> copies_of(const at::Device& device) {
  if (device.is_cpu()) return std::make_unique<CopiesAtOnce>();
  return std::make_unique<CopiesOnStream>(device);
}

void wait_until_done(DeviceCopies::Copy& copy) {
  // A copy of a few megabytes takes a fraction of a millisecond.
  constexpr std::chrono::microseconds kPause(20);
  while (!copy.done()) std::this_thread::sleep_for(kPause);
}

}  // namespace convoy::parallel
