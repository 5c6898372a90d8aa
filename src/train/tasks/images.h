// Pictures that a user names, as a network takes them; and what is said about them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "convoy/train/task.h"

namespace convoy::train {

// Some of the pictures, all of one shape.
struct ImageBatch {
  torch::Tensor pixels;            // [files x views, channels, height, width]
  std::vector<std::size_t> files;  // by number, ascending
};

// Decodes JPEG and PNG files as the recipe's evaluation does, to the network's `image` where the
// recipe leaves the size open. `failed` is told which can't be used and why; `use` gets the others,
// a few at a time.
void read_images(const std::vector<std::string>& files, const DataRecipe& recipe,
                 const data::Shape& image, const Compute& compute,
                 const std::function<void(std::size_t file, const std::string& why)>& failed,
                 const std::function<void(const ImageBatch&)>& use);

struct ClassProbability {
  std::int64_t index;
  std::string name;
  double probability;
};
// The most likely classes as lines and as JSON.
void describe(const std::vector<ClassProbability>& best, Answer& answer);

}  // namespace convoy::train
