// This is what a training is about: what a sample is, how samples become tensors, what the loss is,
// how good a network is. Everything else (trainer, strategies, metrics, checkpoints) goes through
// this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/comm/types.h"
#include "convoy/data/dataset.h"
#include "convoy/data/sample_source.h"
#include "convoy/train/compute.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

using TensorList = std::vector<torch::Tensor>;

// These are some rows of a batch, as tensors by name. How many samples a row stands for is the
// task's matter; what networks draw for dropout goes by `samples`.
struct TaskBatch {
  std::map<std::string, torch::Tensor> tensors;
  std::span<const std::size_t> samples;  // their numbers in the data set
  // Says how much these rows count in a mean: as many samples, or what else training.batch counts.
  // 0, or any number from 1e-12 to 1e15 (parallel::GradientReducer::kLeastSamples, kMostSamples).
  double weight = 0;
};

// This is one figure of an evaluation.
struct Metric {
  std::string name;   // "top1": a key of metrics.jsonl, and what checkpoint.best names
  std::string title;  // "top-1": on the terminal
  bool higher_is_better = true;
  bool percent = false;  // shown as 93.1%, written as 0.931
};

// This is what has to be known of the data to use a network: noted in checkpoints, and the same in
// all of a run, see Task::may_differ.
struct TaskFacts {
  std::map<std::string, double> numbers;                  // "classes"
  std::map<std::string, std::vector<std::string>> lists;  // names of classes
  bool operator==(const TaskFacts&) const = default;
};

// These are some of the outputs of a network that several ranks share, of all rows of theirs
// together.
struct OutputPart {
  std::int64_t begin = 0, size = 0, all = 0;  // units of the last dimension
  // Reduces a tensor that has the same shape on each of these ranks, element by element, without a
  // gradient. It is collective.
  std::function<torch::Tensor(const torch::Tensor& own, comm::ReduceOp operation)> reduce;
};
// This is what one of these ranks contributes: those of all add up.
struct PartLoss {
  double value = 0;
  torch::Tensor gradient;  // with respect to its outputs
};

// This is what a trained network makes of one input of `convoy predict`, or of one sample.
struct Answer {
  std::string input;               // as the user named it; of a sample, data::Dataset::key
  std::string error;               // why there is none; empty: there is
  std::vector<std::string> lines;  // for people
  std::string json;                // an object: further keys of the row; may be empty
};

// This is one of a program's tasks; made from a recipe, then told about the data once (look, or
// restore). Calls that are const may come from any thread. What may differ between ranks is only
// the samples.
class Task {
 public:
  // A network's outputs for its inputs, in evaluation mode. Collective where the network is on
  // several ranks.
  using Forward = std::function<TensorList(const TensorList& inputs)>;

  virtual ~Task() = default;

  // Gives what training.batch and TaskBatch::weight count, in the plural: "images", "tokens".
  virtual std::string unit() const = 0;

  // -- The data

  // Derives the facts from what training and validation (may be null) look like. Throws UsageError
  // for data that the task has no use for, or that don't go together.
  virtual void look(const data::Dataset& training, const data::Dataset* validation) = 0;
  // The facts of the run that a checkpoint is of. Throws UsageError when one is missing.
  virtual void restore(const TaskFacts& facts) = 0;
  virtual const TaskFacts& facts() const = 0;
  // Says whether samples may have any number of labels (data::Dataset::label_lists): other tasks
  // are not given such data.
  virtual bool takes_label_lists() const { return false; }
  // Throws UsageError for data that a network with these facts can't be evaluated on: `what` names
  // them.
  virtual void check(const data::Dataset&, const std::string& /*what*/) const {}
  // Says whether a run can go on from a checkpoint that notes another value of this fact, since
  // something else says what fits (the network, what images it takes).
  virtual bool may_differ(const std::string& /*fact*/) const { return false; }
  // "10 classes": of the data, for the line at the start of a run; may be empty.
  virtual std::string summary() const { return ""; }
  // Scores per sample that the network has to give; 0 where only the network knows.
  virtual std::int64_t outputs() const { return 0; }

  // Says whether batches hold records as they are stored (data::Batch::records) instead of images.
  virtual bool raw() const { return false; }
  // Gives what each sample counts in training.batch; empty: 1. Only for raw records, and networks
  // that can be trained on one sample (Strategy::least_share).
  virtual std::function<std::uint64_t(std::size_t sample)> cost(const data::Dataset&) const {
    return {};
  }

  // -- Tensors

  // Says how much these rows of a batch count (TaskBatch::weight): what they do one by one,
  // together. Rows that count nothing reach no network in training.
  virtual double weight(const data::Batch&, data::Range rows) const {
    return static_cast<double>(rows.size());
  }
  // Gives these rows as tensors, on the device and of the type of `compute`. They may refer to the
  // memory of the batch.
  virtual TaskBatch tensors(const data::Batch& batch, data::Range rows,
                            const Compute& compute) const = 0;
  // Makes the same for the loss alone, of rows whose outputs are there: without what inputs()
  // takes, where the task can leave it out.
  virtual TaskBatch targets(const data::Batch& batch, data::Range rows,
                            const Compute& compute) const {
    return tensors(batch, rows, compute);
  }
  // Makes up samples, so that a network can be tried before there are data. It gives no tensors
  // where the task can't make any.
  virtual TaskBatch blank(std::int64_t, const Compute&) const { return {}; }
  // Gives what the network takes, in its order.
  virtual TensorList inputs(const TaskBatch& batch) const = 0;

  // -- The loss, and figures

  // Gives the mean over the batch, as a scalar.
  virtual torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const = 0;

  // Is for losses that can be computed from outputs of which each rank has some units for all rows,
  // so that no rank has to have all units of a row. It gives what is to be known of rows: [rows],
  // or [rows, outputs()] of which each rank needs the columns that it has outputs for. Where it is
  // undefined (the same on all ranks), the loss needs whole rows.
  virtual torch::Tensor divided_targets(const TaskBatch&) const { return {}; }
  // Computes the sum over rows r of factors[r] times the loss of row r; `outputs` [rows,
  // part.size], `targets` as above, `factors` [rows] in float64. Collective among the ranks that
  // have the other parts.
  virtual PartLoss divided_loss(const torch::Tensor& outputs, const torch::Tensor& targets,
                                const torch::Tensor& factors, const OutputPart& part) const;

  // Gives at least one, and the same ones for every evaluation. `usual_best` is the one that the
  // best checkpoint goes by unless the recipe says.
  virtual std::vector<Metric> metrics() const = 0;
  virtual std::string usual_best() const = 0;
  // Sums that measure() adds to: those of all batches and ranks are added up, in double, and make
  // the figures.
  virtual std::size_t sums() const = 0;
  virtual void measure(const TensorList& outputs, const TaskBatch& batch,
                       std::span<double> sums) const = 0;
  // Gives the figures in the order of metrics(). Of nothing at all they may be anything finite.
  virtual std::vector<double> figures(std::span<const double> sums) const = 0;

  // -- Predictions

  // Answers to what the user names (files, texts), in their order, with at most `most`
  // possibilities each where the task ranks possibilities. Inputs that can't be used don't keep the
  // others from being. Throws UsageError where the task predicts nothing.
  virtual std::vector<Answer> predict(const std::vector<std::string>& inputs, int most,
                                      const Compute& compute, const Forward& forward) const;
  // Answers to samples of a data set, from what the network gives for a batch of them: one for each
  // of batch.samples, in their order, without `input`; `most` as above. They are what predict()
  // says of the same inputs, and what measure() counts goes by the same outputs. The batch's labels
  // may be made up, where the data has none that this task knows. Throws UsageError where the task
  // can't answer so.
  virtual std::vector<Answer> answers(const TensorList& outputs, const TaskBatch& batch,
                                      int most) const;
  // Gives what the data says of one of its samples, to be compared with the answer: further keys of
  // its row, as an object; empty: nothing. As it is here: "label" or, where samples have any number
  // of them, "labels", each with "index" and "name" as the data has them; nothing of data without
  // classes, and of samples without a label (-1).
  virtual std::string labels(const data::Dataset& data, std::size_t sample) const;
};

}  // namespace convoy::train
