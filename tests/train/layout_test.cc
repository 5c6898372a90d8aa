#include "convoy/train/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/comm/world.h"
#include "convoy/train/autocast.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/threads.h"

namespace {

TEST(ToChannelsLast, KeepsIdentityAndValues) {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4),
                              torch::nn::Conv3d(3, 4, 2), torch::nn::Linear(4, 2));
  std::vector<torch::Tensor> before, values;
  for (const auto& p : model->parameters())
    before.push_back(p), values.push_back(p.detach().clone());
  before[0].mutable_grad() = torch::randn_like(before[0]);
  convoy::train::to_channels_last(*model);
  const auto after = model->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(after[i].is_same(before[i]));
    EXPECT_TRUE(torch::equal(after[i], values[i]));
    EXPECT_TRUE(after[i].is_leaf() && after[i].requires_grad());
  }
  EXPECT_TRUE(before[0].is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(before[0].grad().is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(before[4].is_contiguous(torch::MemoryFormat::ChannelsLast3d));
  EXPECT_TRUE(before[6].is_contiguous());
}

TEST(Autocast, ComputesInBfloat16WhileItLives) {
  using convoy::train::Autocast;
  const torch::Tensor a = torch::randn({3, 3});
  const auto type = [&a] { return torch::mm(a, a).scalar_type(); };
  {
    const Autocast off(false);
    EXPECT_EQ(type(), torch::kFloat);
    {
      const Autocast on(true);
      EXPECT_EQ(type(), torch::kBFloat16);
      { const Autocast inside(true); }
      EXPECT_EQ(type(), torch::kBFloat16);
    }
    EXPECT_EQ(type(), torch::kFloat);
  }
}

TEST(SetThreads, TakesTheArgumentThenTheEnvironmentThenTheCores) {
  EXPECT_EQ(convoy::train::set_threads(3), 3);
  EXPECT_EQ(at::get_num_threads(), 3);
  setenv("OMP_NUM_THREADS", "2,4", 1);
  EXPECT_EQ(convoy::train::set_threads(), 2);
  for (const char* bad : {"many", "0", "2x"}) {
    setenv("OMP_NUM_THREADS", bad, 1);
    EXPECT_THROW(convoy::train::set_threads(), convoy::UsageError) << bad;
  }
  unsetenv("OMP_NUM_THREADS");
  EXPECT_GE(convoy::train::set_threads(), 1);
  convoy::comm::World::run_threads(3, [](convoy::comm::World& world) {
    EXPECT_EQ(world.cores(), std::max(1, static_cast<int>(convoy::usable_cores().size()) / 3));
    if (world.rank() != 0) return;
    EXPECT_EQ(convoy::train::set_threads(world), world.cores());
    EXPECT_EQ(at::get_num_threads(), world.cores());
    EXPECT_EQ(convoy::train::set_threads(world, 5), 5);
    setenv("OMP_NUM_THREADS", "4", 1);
    EXPECT_EQ(convoy::train::set_threads(world), 4);
    unsetenv("OMP_NUM_THREADS");
  });
  EXPECT_THROW(convoy::train::set_threads(-1), convoy::UsageError);
  convoy::train::set_threads(1);
}

TEST(DecodingThreads, AreAPartOfThoseThatCompute) {
  convoy::train::Recipe recipe;
  for (const auto& [computing, expected] : {std::pair{1, 1}, {7, 1}, {8, 2}, {128, 16}}) {
    convoy::train::set_threads(computing);
    EXPECT_EQ(convoy::train::decoding_threads(recipe), expected);
  }
  convoy::train::set_threads(3);
  recipe.device = "cuda";
  EXPECT_EQ(convoy::train::decoding_threads(recipe), 3);
  recipe.data.threads = 5;
  EXPECT_EQ(convoy::train::decoding_threads(recipe), 5);
  convoy::train::set_threads(1);
}

}  // namespace
