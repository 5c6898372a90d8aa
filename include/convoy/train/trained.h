// A trained network and what it was trained with, from a checkpoint or a file of weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/model/network.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::train {

struct Trained {
  Recipe recipe;
  std::vector<std::string> classes;         // names, by number
  std::shared_ptr<model::Network> network;  // in evaluation mode, on the recipe's device
  data::Shape input;                        // of one image, as the network was trained
  std::string source;                       // the checkpoint or weights
};

// `path` is a checkpoint, a run folder (its newest checkpoint, or its best), or a recipe with
// model.weights (then class names come from data.validation). Loads the recipe's plugins into the
// registry. `overrides` are applied to the recipe. Throws UsageError.
Trained load_trained(Registry& registry, const std::string& path, Which which,
                     const std::vector<std::string>& overrides);

// A network's scores for one image file.
struct Prediction {
  std::string file;
  std::string error;  // why the file gave none; empty: it did
  struct Score {
    std::int64_t index;
    std::string name;
    double probability;  // softmax, or logistic for one_vs_all
  };
  std::vector<Score> best;  // highest first
};

// Predictions for JPEG or PNG files, `top` classes each, in their order. Files that can't be used
// don't keep the others from being.
std::vector<Prediction> predict(const Trained& trained, const std::vector<std::string>& files,
                                int top);

}  // namespace convoy::train
