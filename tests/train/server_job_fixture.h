// What jobs around a parameter server in this process have in common, whichever their strategy.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "convoy/train/registry.h"
#include "convoy/train/state.h"
#include "convoy/train/trainer.h"
#include "tests/base/scratch.h"
#include "tests/train/small_world.h"

namespace convoy::train {

// Tables of their recipes: 60 samples to train a small network with.
inline const std::string kServerJobTables = R"(
[model]
name = "mlp"  # whose first weights need no generator, which threads would share
[model.options]
hidden = [16]
[data]
reader = "stripes"
[data.train]
size = 60
[data.validation]
size = 30
[output]
tensorboard = false
rank_times_every_steps = 0
)";

class ServerJobTest : public testing::Test {
 protected:
  using Overrides = std::vector<std::string>;

  // Its run goes to the folder run of the test.
  Recipe recipe_of(const std::string& text, Overrides more) {
    more.insert(more.begin(), "output.folder=\"" + scratch_.path() + "/run\"");
    return parse_recipe({text, "job", "/"}, more, registry_.vocabulary());
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  static State saved(const std::string& checkpoint) {
    return read_checkpoint(checkpoint, open_checkpoint(checkpoint), 0, 1);
  }
  static void expect_same(const Tensors& a, const Tensors& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      const auto difference = (tensor.to(torch::kDouble) - b.at(name).to(torch::kDouble)).abs();
      EXPECT_LE(difference.max().item<double>(), tolerance) << name;
    }
  }

  Registry registry_;
  test::Scratch scratch_;
  std::vector<std::thread> threads_;
};

}  // namespace convoy::train
