// How good a network is on a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/data/dataset.h"
#include "convoy/data/loader.h"
#include "convoy/model/network.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Over all samples of all ranks; exact whatever each rank's share.
struct Evaluation {
  std::uint64_t samples = 0;
  std::uint64_t top1 = 0;  // the highest score is the label's
  std::uint64_t top5 = 0;  // it is among the five highest
  double loss = 0;         // mean
  std::uint64_t skipped = 0;
  double seconds = 0;
  bool broken_off = false;  // because a rank was asked to stop; the numbers mean nothing then

  double top1_accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(top1) / static_cast<double>(samples);
  }
  double top5_accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(top5) / static_cast<double>(samples);
  }
};

// How the data of a recipe becomes what the network sees.
data::TransformOptions training_transform(const DataRecipe& recipe);
data::TransformOptions evaluation_transform(const DataRecipe& recipe);

data::OnBad on_bad(const DataRecipe& recipe);

// Threads that decode: data.threads; where it is 0, from the threads that LibTorch computes with
// (set_threads() has been called), a quarter of them, all of them if the network is on a GPU; at
// least 1, at most 16.
int decoding_threads(const Recipe& recipe);

// What the network sees of one record of this data, by data::output_shape.
data::Shape input_shape(const data::Dataset& dataset, const DataRecipe& recipe);

struct EvaluationOptions {
  // Is told about each bad record that is left out, on the rank that has it, from any thread.
  std::function<void(const std::string& message)> on_skip;
  // Asked before each batch: whether to break off. One rank is enough, and all end after that
  // batch; where it was the last, nothing is missing.
  std::function<bool()> should_stop;
};

// Evaluates in evaluation mode and restores the mode. `dataset` is the recipe's data.validation;
// the network is the same on all ranks, and each takes an even share of the data. Throws UsageError
// on every rank when their data sets differ. Collective.
Evaluation evaluate(const comm::Communicator& communicator, model::Network& network,
                    const std::shared_ptr<const data::Dataset>& dataset, const Recipe& recipe,
                    const EvaluationOptions& options = {});

}  // namespace convoy::train
