// Batches that come to a GPU, gradients that go through the host's memory, and memory that runs
// out.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/train/compute.h"
#include "parallel/device_copies.h"
#include "tests/cuda/needs_gpu.h"
#include "tests/data/loader_support.h"
#include "tests/parallel/mpi_main.h"
#include "train/compute/batch_stage.h"

namespace convoy::train {
namespace {

// LibTorch has the GPUs that it finds when it is first asked for some.
class LoadsTheLibrary final : public testing::Environment {
 public:
  void SetUp() override { gpu_problem(); }
};
[[maybe_unused]] const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(new LoadsTheLibrary);

torch::Device gpu() { return open_device("cuda", test_world().local_rank()); }

TEST(CudaCopies, GoAndComeBack) {
  NEEDS_A_GPU();
  const torch::Device device = gpu();
  const auto copies = parallel::copies_of(device);
  const torch::Tensor from = copies->host_memory(1 << 20, torch::kFloat);
  EXPECT_TRUE(from.is_pinned());
  from.copy_(torch::rand({1 << 20}));
  const torch::Tensor there = copies->device_memory(1 << 20, torch::kFloat);
  EXPECT_EQ(there.device(), device);
  copies->start(there, from)->join();
  // Computed on the stream of this thread, after the copy.
  const torch::Tensor twice = there * 2;
  const torch::Tensor back = copies->host_memory(1 << 20, torch::kFloat);
  const auto copy = copies->start(back, twice);
  parallel::wait_until_done(*copy);
  EXPECT_TRUE(torch::equal(back, from * 2));
}

// Again and again, so that memory is used for other things between a copy and its use.
TEST(CudaBatches, AreThoseOfTheLoader) {
  NEEDS_A_GPU();
  Recipe recipe;
  recipe.device = "cuda";
  const Compute compute(recipe, test_world().local_rank());
  // What several devices share are parts of batches, which don't come ahead of need.
  EXPECT_FALSE(compute.on(compute.device()).stage());
  data::LoaderOptions options = data::batches_of(4, 0, 1, 2);
  options.layout = compute.layout();
  data::Loader plain(data::small_images(62), data::random_crops(), options);
  options.memory = compute.batch_memory();
  data::Loader loader(data::small_images(62), data::random_crops(), options);
  Prefetch batches(compute.stage(), loader);
  std::vector<torch::Tensor> kept, wanted;
  for (int i = 0; i < 60; ++i) {
    const data::Batch* const expected = plain.next();
    const data::Batch* const batch = batches.next();
    ASSERT_EQ(expected == nullptr, batch == nullptr);
    if (batch == nullptr) continue;
    batches.look_ahead();
    const torch::Tensor images = compute.images(*batch);
    EXPECT_EQ(images.device(), compute.device());
    // Half of the images is given up before the device may have come to it.
    const torch::Tensor sum = images.sum({1, 2, 3});
    if (i % 2 == 0) kept.push_back(images);
    if (i % 2 == 0) wanted.push_back(host_images(*expected).clone());
    EXPECT_TRUE(torch::allclose(sum.cpu(), host_images(*expected).sum({1, 2, 3}), 1e-4, 1e-4));
    const std::vector<std::int64_t> numbers(batch->labels.begin(), batch->labels.end());
    EXPECT_TRUE(torch::equal(compute.labels(batch->labels).cpu(), torch::tensor(numbers)));
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(torch::equal(kept[i].cpu(), wanted[i])) << i;
}

// Ranks of this host share a GPU where there are more of them.
TEST(CudaGradients, AreThoseOfTheCpu) {
  NEEDS_A_GPU();
  const torch::Device device = gpu();
  const double rank = test_world().rank(), ranks = test_world().size();
  for (const bool reproducible : {false, true}) {
    for (const bool narrow : {false, true}) {
      parallel::ReducerOptions options;
      options.first_bucket_bytes = options.bucket_bytes = 4096;
      options.reproducible = reproducible;
      if (narrow) options.wire_type = at::kBFloat16;
      std::vector<parallel::NamedTensor> parameters;
      for (int i = 0; i < 7; ++i) {
        const torch::Tensor values =
            torch::full({100 + i, 30}, 1.0, torch::TensorOptions().device(device));
        parameters.push_back({std::to_string(i), values.set_requires_grad(true)});
      }
      parallel::GradientReducer reducer(test_world().communicator(), {parameters}, options);
      for (int step = 0; step < 4; ++step) {
        torch::Tensor loss = torch::zeros({}, torch::TensorOptions().device(device));
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          parameters[i].tensor.mutable_grad() = torch::Tensor();
          const double factor = (static_cast<double>(i) + 1) * (rank + 1) + step;
          loss = loss + parameters[i].tensor.square().sum() * (factor / 2);
        }
        reducer.count_samples(1);
        loss.backward();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const double mean = (static_cast<double>(i) + 1) * (ranks + 1) / 2 + step;
          const torch::Tensor& gradient = parameters[i].tensor.grad();
          EXPECT_EQ(gradient.device(), device);
          const double off = (gradient - mean).abs().max().item<double>();
          EXPECT_LE(off, mean * (narrow ? 0.02 : 1e-6)) << i;
        }
      }
    }
  }
}

TEST(CudaMemory, ThatRunsOutIsNamed) {
  NEEDS_A_GPU();
  const torch::Device device = gpu();
  std::string text;
  try {
    torch::empty({std::int64_t{1} << 45}, torch::TensorOptions().device(device));
  } catch (const c10::OutOfMemoryError& error) {
    text = out_of_memory_text(device, "rank 0 on here", error);
  }
  EXPECT_EQ(text.find("rank 0 on here: " + device.str() + " has no memory left"), 0U) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  const torch::Tensor some = torch::zeros({1 << 20}, torch::TensorOptions().device(device));
  if (const auto memory = device_memory(device)) {
    EXPECT_GE(memory->taken, std::uint64_t{4} << 20);
    EXPECT_GE(memory->peak, memory->taken);
    EXPECT_GT(memory->total, memory->taken);
  }
}

}  // namespace
}  // namespace convoy::train
