// Small jobs with strategy "sandblaster" through the command line, and the same method in one
// process.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "convoy/train/registry.h"
#include "convoy/train/sandblaster_roles.h"
#include "convoy/train/trained.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"
#include "tests/train/sandblaster_fake.h"

namespace convoy::cli {

using Words = std::vector<std::string>;

// Softmax on 5,000 of MNIST's images, in 20 portions.
inline Words small_sandblaster(const std::string& folder, const Words& keys) {
  const std::string source = test::source_folder(), mnist = source + "/data/mnist/t10k-";
  Words words{"train", source + "/recipes/mnist-softmax-sandblaster.toml"};
  const auto set = [&](const std::string& key) { words.insert(words.end(), {"--set", key}); };
  set("output.folder=" + folder);
  set("data.train.images=" + mnist + "images-idx3-ubyte.gz");
  set("data.train.labels=" + mnist + "labels-idx1-ubyte.gz");
  for (const char* key :
       {"training.steps=5", "training.batch=500", "evaluation.fraction=0.02", "threads=1",
        "evaluation.every_steps=0", "output.tensorboard=false", "precision=float64"})
    set(key);
  for (const std::string& key : keys) set(key);
  return words;
}

inline train::Tensors weights_in(const std::string& folder) {
  const std::string checkpoint = train::CheckpointFolder(folder + "/checkpoints").newest();
  return train::read_checkpoint(checkpoint, train::open_checkpoint(checkpoint), 0, 1).model;
}

// convoy::optim in this process's memory, with one replica that is a thread.
inline train::Tensors in_one_process(const std::string& folder, const Words& keys) {
  train::Registry registry;
  const Words words = small_sandblaster(folder, keys);
  Words overrides;
  for (std::size_t i = 3; i < words.size(); i += 2) overrides.push_back(words[i]);
  const train::Recipe recipe =
      train::parse_recipe(train::read_recipe_file(words[1]), overrides, registry.vocabulary());
  train::testing_data::FakeBatchJob<double> job(recipe, 0);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    comm::World::run_threads(1, [&](comm::World& world) {
      train::TrainerOptions options;
      options.progress = false;
      train::run_batch_evaluator(world, registry, recipe, train::testing_data::connect_to(job),
                                 options);
    });
  });
  threads.emplace_back([&] {
    comm::World::run_threads(1, [&](comm::World& world) {
      train::run_batch_replica(world, registry, recipe, train::testing_data::connect_to(job));
    });
  });
  job.optimize();
  for (std::thread& thread : threads) thread.join();
  return weights_in(folder);
}

inline void expect_same_bits(const train::Tensors& mine, const train::Tensors& expected) {
  ASSERT_EQ(mine.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(mine.contains(name)) << name;
    EXPECT_TRUE(torch::equal(mine.at(name), tensor))
        << name << ": " << (mine.at(name) - tensor).abs().max().item<double>();
  }
}

inline pid_t process_of(const Job& job, const std::string& role, const std::string& its_name = "") {
  for (const JobProcess& process : job.processes("convoy")) {
    const Words& words = process.arguments;
    const auto has = [&words](const std::string& word) {
      return word.empty() || std::find(words.begin(), words.end(), word) != words.end();
    };
    if (has(role) && has(its_name)) return process.pid;
  }
  return 0;
}

}  // namespace convoy::cli
