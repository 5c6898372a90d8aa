// Gradients on their way into buckets.
#include "parallel/tensors.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace convoy::parallel {
namespace {

// Counts the bytes that tensors take, while it lives.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountingAllocator() override { c10::SetCPUAllocator(inner_, kPriority); }

  c10::DataPtr allocate(std::size_t bytes) override {
    bytes_ += bytes;
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    inner_->copy_data(to, from, count);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint8_t kPriority = 100;
  c10::Allocator* inner_;
  std::atomic<std::size_t> bytes_{0};
};

struct Layout {
  const char* name;
  at::Tensor (*make)(const at::Tensor& contiguous);
};
const Layout kLayouts[] = {
    {"contiguous", [](const at::Tensor& t) { return t.clone(); }},
    {"channels-last",
     [](const at::Tensor& t) { return t.contiguous(at::MemoryFormat::ChannelsLast).clone(); }},
    {"transposed",
     [](const at::Tensor& t) { return t.transpose(0, 1).contiguous().transpose(0, 1); }},
    {"with holes",
     [](const at::Tensor& t) {
       const auto wide = at::zeros({t.size(0), t.size(1), t.size(2), 2 * t.size(3)}, t.options());
       return wide.slice(3, 0, 2 * t.size(3), 2).copy_(t);
     }},
};

TEST(CopyScaled, IsOnePassForEveryTypeAndLayout) {
  torch::manual_seed(1);
  const std::vector<std::int64_t> shape{16, 24, 3, 3};
  const double scale = 1.0 / 3;
  const at::Tensor values = torch::randn(shape, torch::kDouble);
  const std::vector<std::pair<at::ScalarType, at::ScalarType>> types{
      {at::kFloat, at::kFloat},    {at::kDouble, at::kDouble}, {at::kBFloat16, at::kBFloat16},
      {at::kFloat, at::kBFloat16}, {at::kFloat, at::kHalf},    {at::kFloat, at::kDouble}};
  for (const auto& [from_type, to_type] : types) {
    for (const Layout& from_layout : kLayouts) {
      for (const Layout& to_layout : {kLayouts[0], kLayouts[1]}) {
        SCOPED_TRACE(std::string(c10::toString(from_type)) + " to " + c10::toString(to_type) +
                     ", " + from_layout.name + " to " + to_layout.name);
        const at::Tensor from = from_layout.make(values.to(from_type));
        at::Tensor to = to_layout.make(torch::zeros(shape, to_type));
        const std::vector<std::int64_t> strides = to.strides().vec();
        const void* place = to.data_ptr();
        std::size_t taken = 0;
        {
          const CountingAllocator counter;
          copy_scaled(to, from, scale);
          taken = counter.bytes();
        }
        EXPECT_LE(taken, 64u);  // the scale, not the values
        EXPECT_EQ(to.data_ptr(), place);
        EXPECT_EQ(to.strides().vec(), strides);
        // The product is rounded as an operation of its own, then converted.
        EXPECT_TRUE(to.equal((from * scale).to(to_type)));
      }
    }
  }
}

TEST(CopyScaled, RoundsLikeLibTorch) {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor from = torch::tensor(
      {1.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, 1e-40f, inf, -inf, std::nanf("")});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::Tensor to = torch::zeros({from.numel()}, type);
    copy_scaled(to, from, 1);
    EXPECT_TRUE(to.allclose(from.to(type), 0, 0, /*equal_nan=*/true)) << to;
  }
}

TEST(CopyScaled, RefusesWhatLosesMore) {
  at::Tensor to = torch::zeros({2});
  EXPECT_THROW(copy_scaled(to, torch::zeros({2}, torch::kDouble), 1), c10::Error);
}

}  // namespace
}  // namespace convoy::parallel
