// A device that is none, for the code that copies to devices and back.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/device_copies.h"

namespace convoy::parallel {

// Copies that were begun, in their order.
struct BegunCopies {
  struct One {
    at::Tensor to, from;
    bool done = false;
  };
  std::vector<One> all;

  // As a stream does them.
  void do_until(std::size_t last) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i <= last; ++i) {
      if (!all[i].done) all[i].to.copy_(all[i].from);
      all[i].done = true;
    }
  }
};

// Its memory is the host's. Copies are made when they have been asked for three times, or joined,
// and not when they are begun: who reads or writes too early finds other values.
class LateCopies final : public DeviceCopies {
 public:
  explicit LateCopies(std::shared_ptr<BegunCopies> begun) : begun_(std::move(begun)) {}

  std::unique_ptr<Copy> start(const at::Tensor& to, const at::Tensor& from) override {
    begun_->all.push_back({to, from});
    return std::make_unique<Late>(begun_, begun_->all.size() - 1);
  }
  at::Tensor host_memory(std::int64_t elements, at::ScalarType type) override {
    return at::full({elements}, std::numeric_limits<double>::quiet_NaN(),
                    at::TensorOptions().dtype(type));
  }
  at::Tensor device_memory(std::int64_t elements, at::ScalarType type) override {
    return host_memory(elements, type);
  }

 private:
  class Late final : public Copy {
   public:
    Late(std::shared_ptr<BegunCopies> begun, std::size_t mine)
        : begun_(std::move(begun)), mine_(mine) {}
    bool done() override {
      if (++asked_ == 3) begun_->do_until(mine_);
      return begun_->all[mine_].done;
    }
    void join() override { begun_->do_until(mine_); }

   private:
    std::shared_ptr<BegunCopies> begun_;
    std::size_t mine_;
    int asked_ = 0;
  };

  std::shared_ptr<BegunCopies> begun_;
};

}  // namespace convoy::parallel
