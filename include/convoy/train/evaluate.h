// This says how good a network is on a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/data/dataset.h"
#include "convoy/data/loader.h"
#include "convoy/train/recipe.h"
#include "convoy/train/strategy.h"
#include "convoy/train/task.h"

namespace convoy::train {

// Has figures over all samples of all ranks; they are exact whatever each rank's share.
struct Evaluation {
  struct Figure {
    Metric metric;
    double value = 0;
  };
  std::uint64_t samples = 0;
  std::vector<Figure> figures;  // in the task's order; then those of add_training()
  std::uint64_t skipped = 0;
  double seconds = 0;
  bool broken_off = false;  // because a rank was asked to stop; the numbers mean nothing then

  // Gives the metric of this name. Throws std::logic_error if the task has none.
  double at(std::string_view metric) const;
  // Gives the same so that greater is better.
  double score(std::string_view metric) const;
};
// Gives what a metric is called where it is measured on training data: "train_top1", "top-1 of
// training data".
Metric metric_of_training(Metric metric);
// Adds the figures of an evaluation on training data, and the time that it took.
void add_training(Evaluation& evaluation, const Evaluation& of_training);

// "top-1 93.10%"
std::string text_of(const Evaluation::Figure& figure);

// Says how the data of a recipe becomes what the network sees.
data::TransformOptions training_transform(const DataRecipe& recipe);
data::TransformOptions evaluation_transform(const DataRecipe& recipe);
// This says it for a network that was made for images of this shape: with data.channels = 0, gray
// and color become what it takes, whatever the first record to be evaluated is.
data::TransformOptions evaluation_transform(const DataRecipe& recipe, const data::Shape& trained);

data::OnBad on_bad(const DataRecipe& recipe);

// Says how many threads decode: data.threads; where it is 0, of the threads that LibTorch computes
// with (set_threads() has been called), a quarter of them, all of them if the network is on a GPU;
// at least 1, at most 16.
int decoding_threads(const Recipe& recipe);

// Gives what the network sees of one record of this data, by data::output_shape.
data::Shape input_shape(const data::Dataset& dataset, const DataRecipe& recipe);

struct EvaluationOptions {
  // Is told about each bad record that is left out, on the rank that has it, from any thread.
  std::function<void(const std::string& message)> on_skip;
  // Is asked before each batch whether to break off. One rank is enough, and all end after that
  // batch; where it was the last, nothing is missing.
  std::function<bool()> should_stop;
  // Is called before each batch, on every rank equally often: may be collective.
  std::function<void()> between_batches;
  // Is called on every rank, where one could not read its samples and all of them are about to
  // throw.
  std::function<void()> when_all_fail;
};

// This is what is evaluated, and by whom.
struct Evaluated {
  const comm::Communicator& all;
  const Recipe& recipe;
  const Task& task;
  const Compute& compute;
  const Arrangement& arrangement;
  Strategy& strategy;  // whose module holds what is to be evaluated
};

// Evaluates in evaluation mode and restores the mode. `dataset` is the recipe's data.validation;
// its samples are shared out as those of training are. Throws UsageError on every rank when their
// data sets differ, or not exactly one rank answers for each share (Strategy::infer); and on every
// rank what the first one threw that could not read its samples. Collective.
Evaluation evaluate(const Evaluated& what, const std::shared_ptr<const data::Dataset>& dataset,
                    const EvaluationOptions& options = {});

}  // namespace convoy::train
