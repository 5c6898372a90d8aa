// Devices: what recipes call them, which ranks get which, what is said where there is none, and
// batches that come to one ahead of need.
#include "train/compute/device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/train/compute.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/data/loader_support.h"
#include "tests/parallel/late_copies.h"
#include "train/compute/batch_stage.h"
#include "train/compute/gpu.h"
#include "train/strategies/devices/options.h"

namespace convoy::train {
namespace {

TEST(DeviceNames, AreReadAndWritten) {
  EXPECT_EQ(parse_device("cpu"), (DeviceName{false, -1}));
  EXPECT_EQ(parse_device("cuda"), (DeviceName{true, -1}));
  EXPECT_EQ(parse_device("cuda:0"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device("cuda:12"), (DeviceName{true, 12}));
  for (const char* name : {"cpu", "cuda", "cuda:3"})
    EXPECT_EQ(device_text(parse_device(name).value()), name);
  for (const char* wrong : {"", "gpu", "cpu:0", "CUDA", "cuda:", "cuda:-1", "cuda:x", "cuda:1x",
                            "cuda: 1", "cuda:127", "cuda:99999999999"})
    EXPECT_FALSE(parse_device(wrong)) << wrong;
}

TEST(DeviceNames, RanksTakeGpusInTurn) {
  const DeviceName any{true, -1}, second{true, 1};
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(gpu_of(any, rank, 2), rank % 2);
    EXPECT_EQ(gpu_of(any, rank, 8), rank);
    EXPECT_EQ(gpu_of(second, rank, 8), 1);
    // Of five ranks on two GPUs three take the first one.
    EXPECT_EQ(ranks_on_gpu(any, rank, 5, 2), rank % 2 == 0 ? 3 : 2);
    EXPECT_EQ(ranks_on_gpu(any, rank, 5, 8), 1);
    EXPECT_EQ(ranks_on_gpu(second, rank, 5, 8), 5);
  }
}

TEST(DeviceNames, RanksOfSeveralBeginWithTheirFirst) {
  Recipe recipe;
  EXPECT_EQ(first_gpu_of_rank(recipe, 3), 3);
  recipe.strategy_options = Options(device_keys());
  EXPECT_EQ(first_gpu_of_rank(recipe, 3), 3);
  recipe.strategy_options.set("devices", std::int64_t{2});
  EXPECT_EQ(first_gpu_of_rank(recipe, 3), 6);
  recipe.strategy_options.set("gpus", std::vector<double>{5, 1});
  EXPECT_EQ(first_gpu_of_rank(recipe, 3), 5);
}

TEST(DeviceNames, TheFirstGpuIsANumber) {
  EXPECT_EQ(first_gpu(""), 0);
  EXPECT_EQ(first_gpu("0"), 0);
  EXPECT_EQ(first_gpu("12"), 12);
  for (const char* wrong : {"-1", "x", "1x", " 1", "99999999999", "2000000"})
    EXPECT_FALSE(first_gpu(wrong)) << wrong;
}

// Before anything is opened, in one line that says what to do.
TEST(OpenDevice, RefusesWhatIsNotThere) {
  EXPECT_EQ(open_device("cpu", 3), torch::Device(torch::kCPU));
  EXPECT_FALSE(device_memory(torch::kCPU));
  EXPECT_EQ(test::message_of<UsageError>([] { open_device("gpu", 0); }),
            "device is \"gpu\"; it can be cpu, cuda, or cuda:N with the number of a GPU");
  if (gpus() > 0) GTEST_SKIP() << "there is a GPU";
  for (const std::string name : {"cuda", "cuda:2"}) {
    Recipe recipe;
    recipe.device = name;
    const std::string text = test::message_of<UsageError>([&] { const Compute compute(recipe); });
    EXPECT_EQ(text,
              "device is \"" + name + "\", but " + gpu_problem() + "; or set device = \"cpu\"");
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(OpenDevice, SaysWhatIsWrongWithTheLibrary) {
  const test::Scratch folder;
  const std::string without = load_gpu_library(folder.path());
  EXPECT_TRUE(without.starts_with("the LibTorch in " + folder.path() + " is without CUDA"))
      << without;
  EXPECT_NE(without.find("tools/setup.sh --cuda"), std::string::npos) << without;
  test::spill(folder.path("libtorch_cuda.so"), "no library");
  const std::string damaged = load_gpu_library(folder.path());
  EXPECT_TRUE(damaged.starts_with("LibTorch's library for GPUs can't be loaded (" + folder.path()))
      << damaged;
}

// As many as the loader can prepare now; at the end of an epoch there are none.
void wait_for_a_batch(const data::Loader& loader) {
  const auto begin = Clock::now();
  while (loader.statistics().ready == 0 && !loader.epoch_over() &&
         seconds_since(begin) < test::patience_s())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Whether images are elsewhere than the batch.
bool brought(const torch::Tensor& images, const data::Batch& batch) {
  return images.data_ptr() != static_cast<const void*>(batch.bytes.data());
}

TEST(BatchStage, BringsWhatComesNext) {
  for (const data::Layout layout : {data::Layout::planar, data::Layout::channels_last}) {
    data::LoaderOptions options = data::batches_of(4, 0, 1, 2);
    options.layout = layout;
    data::Loader plain(data::small_images(22), data::random_crops(), options);
    data::Loader loader(data::small_images(22), data::random_crops(), options);
    const auto begun = std::make_shared<parallel::BegunCopies>();
    const auto stage = std::make_shared<BatchStage>(std::make_unique<parallel::LateCopies>(begun),
                                                    torch::Device(torch::kCPU));
    std::vector<torch::Tensor> kept, wanted;
    {
      Prefetch batches(stage, loader);
      for (int i = 0; i < 15; ++i) {
        const data::Batch* const expected = plain.next();
        const data::Batch* const batch = batches.next();
        ASSERT_EQ(expected == nullptr, batch == nullptr);
        if (batch == nullptr) continue;
        wait_for_a_batch(loader);
        batches.look_ahead();
        const torch::Tensor images = stage->images(host_images(*batch), batch->number);
        EXPECT_EQ(images.strides(), host_images(*batch).strides());
        EXPECT_TRUE(torch::equal(images, host_images(*expected))) << i;
        if (!brought(images, *batch)) continue;
        // Of several micro-batches each asks for it.
        EXPECT_EQ(stage->images(host_images(*batch), batch->number).data_ptr(), images.data_ptr());
        kept.push_back(images);
        wanted.push_back(host_images(*expected).clone());
      }
    }
    // 6 batches an epoch, of which the first waits for nobody.
    EXPECT_GE(kept.size(), 8U);
    // The loader has written over all of them meanwhile.
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(torch::equal(kept[i], wanted[i]));
    for (const parallel::BegunCopies::One& copy : begun->all) EXPECT_TRUE(copy.done);
  }
}

TEST(BatchStage, MemoryIsReadUntilTheBatchIsDoneWith) {
  const auto begun = std::make_shared<parallel::BegunCopies>();
  BatchStage stage(std::make_unique<parallel::LateCopies>(begun), torch::Device(torch::kCPU));
  const torch::Tensor first = torch::rand({2, 1, 3, 3}), second = torch::rand({2, 1, 3, 3});
  stage.begin(first, 1);
  stage.advance();  // the first is in use
  EXPECT_FALSE(begun->all.at(0).done);
  stage.begin(second, 2);
  stage.advance();
  EXPECT_TRUE(begun->all.at(0).done);
  EXPECT_FALSE(begun->all.at(1).done);
  EXPECT_NE(stage.images(second, 2).data_ptr(), second.data_ptr());
  EXPECT_TRUE(begun->all.at(1).done);
  stage.begin(first, 3);
  stage.drop();
  EXPECT_TRUE(begun->all.at(2).done);
  // What isn't there any more comes now: of this device, which is none, it is the memory itself.
  EXPECT_EQ(stage.images(first, 3).data_ptr(), first.data_ptr());
}

TEST(BatchStage, AnotherBatchInTheSameMemoryIsAnother) {
  const auto begun = std::make_shared<parallel::BegunCopies>();
  BatchStage stage(std::make_unique<parallel::LateCopies>(begun), torch::Device(torch::kCPU));
  const torch::Tensor memory = torch::rand({2, 1, 3, 3});
  stage.begin(memory, 7);
  EXPECT_EQ(stage.images(memory, 8).data_ptr(), memory.data_ptr());
  EXPECT_EQ(stage.images(memory, 0).data_ptr(), memory.data_ptr());
  EXPECT_EQ(stage.images(memory.narrow(0, 0, 1), 7).data_ptr(), memory.data_ptr());
  EXPECT_NE(stage.images(memory, 7).data_ptr(), memory.data_ptr());
}

// A device that has no memory left for copies.
class NoCopies final : public parallel::DeviceCopies {
 public:
  std::unique_ptr<Copy> start(const at::Tensor& /*to*/, const at::Tensor& /*from*/) override {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory");
    return nullptr;
  }
  at::Tensor host_memory(std::int64_t elements, at::ScalarType type) override {
    return at::empty({elements}, at::TensorOptions().dtype(type));
  }
  at::Tensor device_memory(std::int64_t elements, at::ScalarType type) override {
    return host_memory(elements, type);
  }
};

TEST(BatchStage, WithoutMemoryBatchesComeWhenTheyAreAskedFor) {
  const auto stage =
      std::make_shared<BatchStage>(std::make_unique<NoCopies>(), torch::Device(torch::kCPU));
  EXPECT_THROW(stage->begin(torch::rand({2, 1, 3, 3}), 1), c10::OutOfMemoryError);
  data::Loader loader(data::small_images(22), data::random_crops(), data::batches_of(4));
  Prefetch batches(stage, loader);
  for (int i = 0; i < 6; ++i) {
    const data::Batch* const batch = batches.next();
    ASSERT_NE(batch, nullptr);
    if (i < 5) wait_for_a_batch(loader);
    batches.look_ahead();
    EXPECT_FALSE(brought(stage->images(host_images(*batch), batch->number), *batch)) << i;
  }
  EXPECT_EQ(batches.next(), nullptr);
}

// Where there is no device, batches are what the source gives.
TEST(BatchStage, IsNotNeededOnTheCpu) {
  const Recipe recipe;
  const Compute compute(recipe);
  EXPECT_EQ(compute.stage(), nullptr);
  EXPECT_FALSE(compute.batch_memory());
  data::Loader loader(data::small_images(6), {}, data::batches_of(4));
  Prefetch batches(compute.stage(), loader);
  const data::Batch* const batch = batches.next();
  batches.look_ahead();
  EXPECT_EQ(compute.images(*batch).data_ptr(), static_cast<void*>(batch->bytes.data()));
  EXPECT_EQ(batches.next()->size(), 2U);
  EXPECT_EQ(batches.next(), nullptr);
}

}  // namespace
}  // namespace convoy::train
