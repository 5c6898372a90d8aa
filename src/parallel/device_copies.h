// Copies between the memory of the host and that of a device, beside what the device computes.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace convoy::parallel {

// An object is for one device. Its copies come one after the other. One thread at a time.
class DeviceCopies {
 public:
  // A copy that was begun; it keeps both of its tensors. It may outlive what began it, and be given
  // up before it is done.
  class Copy {
   public:
    virtual ~Copy() = default;
    // Whether it has ended, so that the host may read what was written, and write what was read.
    // Doesn't wait.
    virtual bool done() = 0;
    // What the calling thread gives the device from now on comes after the copy. Doesn't wait,
    // either.
    virtual void join() = 0;
  };

  virtual ~DeviceCopies() = default;

  // Begins to copy between the host and the device: tensors of the same shape, type and strides. It
  // begins when the device has done what the calling thread has given it by now. The host waits for
  // it where its side is other memory than that of host_memory().
  virtual std::unique_ptr<Copy> start(const at::Tensor& to, const at::Tensor& from) = 0;

  // Give new memory, [elements]: of the host, for copies that the host doesn't wait for, and of the
  // device.
  virtual at::Tensor host_memory(std::int64_t elements, at::ScalarType type) = 0;
  virtual at::Tensor device_memory(std::int64_t elements, at::ScalarType type) = 0;
};

// Gives those of a device. Of the CPU each copy is done when start() returns; of others they are on
// a stream of their own, between pinned memory and the device's.
std::unique_ptr<DeviceCopies> copies_of(const at::Device& device);

// Returns when the copy is done.
void wait_until_done(DeviceCopies::Copy& copy);

}  // namespace convoy::parallel
