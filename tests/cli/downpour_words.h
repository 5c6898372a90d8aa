// Small jobs with strategy "downpour" through the command line.
#pragma once

#include <string>
#include <vector>

#include "tests/base/scratch.h"

namespace convoy::cli {

// `convoy train` with a small network on MNIST's 10,000 test images, and with these keys.
inline std::vector<std::string> small_downpour(const std::string& folder,
                                               const std::vector<std::string>& keys) {
  const std::string source = test::source_folder(), mnist = source + "/data/mnist/t10k-";
  std::vector<std::string> words{"train", source + "/recipes/mnist-downpour.toml"};
  const auto set = [&](const std::string& key) { words.insert(words.end(), {"--set", key}); };
  set("output.folder=" + folder);
  set("data.train.images=" + mnist + "images-idx3-ubyte.gz");
  set("data.train.labels=" + mnist + "labels-idx1-ubyte.gz");
  for (const char* key : {"model.name=mlp", "training.epochs=0", "downpour.warm_steps=0",
                          "evaluation.fraction=0.02", "output.tensorboard=false", "threads=1"})
    set(key);
  for (const std::string& key : keys) set(key);
  return words;
}

}  // namespace convoy::cli
