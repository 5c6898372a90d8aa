// This is what a checkpoint holds, as tensors and names.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/comm/communicator.h"
#include "convoy/train/checkpoint_folder.h"

namespace convoy::train {

using Tensors = std::map<std::string, torch::Tensor>;

// Everything that decides how a training goes on. Tensors refer to the live ones when a strategy
// hands its state out, and where a file was read into a network; otherwise they are contiguous CPU
// tensors of their own when they come from a file.
//
// A rank may hold parts of tensors: `parts` says which. What the ranks hold together has to be
// every element of every tensor; ranks that hold the same slice of one hold replicas of it.
struct State {
  Tensors model;      // parameters and buffers under their names, each once
  Tensors optimizer;  // "<slot>/<parameter>"
  // These are of this rank alone: local running statistics of batch normalization. In a checkpoint
  // of another world size they are missing, and `model` holds their average.
  Tensors rank;
  // This is the slice that this rank has of a tensor in `model`, and of every "<slot>/<name>" in
  // `optimizer`, by name in the model. Tensors that are not in here are whole.
  std::map<std::string, Slice> parts;
  // A rank may have some of these. What several have under one name is the same on all of them.
  std::map<std::string, std::string> aliases;  // other names of what is in `model`
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<std::string>> lists;
};

// Describes parameters and buffers of a module as State has them.
void describe_module(const torch::nn::Module& module, State& state);

// This is what a rank needs of a tensor of the model (given as the whole), and of the optimizer's
// slots for it: a slice of it, or nothing.
using Wanted = std::function<std::optional<Slice>(const Slice& whole)>;
std::optional<Slice> everything(const Slice& whole);

// Gives what the ranks of a communicator want of a checkpoint that rank 0 has opened, whichever
// grid of ranks wrote it. Ranks that see its files read what they need; to the others rank 0 hands
// it on, however long that takes. What is read is compared with its checksums. Collective. Throws
// on every rank what the first one found: UsageError as open_checkpoint does, naming file and
// slice.
//
// With a network, which holds what is wanted, the model is read straight into it: State::model then
// has its tensors themselves, without a second copy (but of one tensor at a time where type, device
// or layout differ from the file's). What it doesn't have, or in another size, is read into memory
// of its own, for load_module to say so. It may be left with some of it when this throws.
State read_checkpoint(const comm::Communicator& communicator, const std::string& path,
                      const Manifest& manifest, const Wanted& wanted = everything,
                      torch::nn::Module* network = nullptr);
// Reads the model alone, into a network; nothing else is read.
State read_model(const comm::Communicator& communicator, const std::string& path,
                 const Manifest& manifest, const Wanted& wanted, torch::nn::Module& network);
// Reads all of a checkpoint, whole, by one process for itself, as rank `rank` of `world`.
State read_checkpoint(const std::string& path, const Manifest& manifest, int rank, int world);
// Reads the model alone in the same way.
State read_model(const std::string& path, const Manifest& manifest);

// Copies tensors of the same names into a module's, unless they are these themselves. Throws
// UsageError that lists names and shapes which differ (of the file, of the model), up to a dozen of
// each.
void load_module(torch::nn::Module& module, const State& state, const std::string& from);

// This is what load_weights did and did not use.
struct WeightsReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // the model has them, the file doesn't
  std::vector<std::string> unexpected;  // the other way round
  std::vector<std::string>
      mismatched;  // "fc.weight: [1000, 512] in the file, [10, 512] in the model"
};
std::string describe(const WeightsReport& report);

// Copies a plain safetensors file into a module, converting floating types. Unless `partial`,
// throws UsageError with the report when anything is missing, unexpected or of another shape. A
// file without "num_batches_tracked" entries counts as complete, and so does one that has a tensor
// of several names under one of them.
WeightsReport load_weights(torch::nn::Module& module, const std::string& file, bool partial);

}  // namespace convoy::train
