// What a checkpoint holds, as tensors and names.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/train/checkpoint_folder.h"

namespace convoy::train {

using Tensors = std::map<std::string, torch::Tensor>;

// Everything that decides how a training goes on. Tensors refer to the live ones when a strategy
// hands its state out, and are contiguous CPU tensors of their own when they come from a file.
struct State {
  Tensors model;      // parameters and buffers under their names, each once
  Tensors optimizer;  // "<slot>/<parameter>"
  // Of this rank alone: local running statistics of batch normalization. In a checkpoint of another
  // world size they are missing, and `model` holds their average.
  Tensors rank;
  std::map<std::string, std::string> aliases;  // other names of what is in `model`
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<std::string>> lists;
};

// Parameters and buffers of a module as State has them.
void describe_module(const torch::nn::Module& module, State& state);

// Writes the state of all ranks into checkpoints/step-..., on rank 0; returns the path on every
// rank. Collective. A failure on rank 0 is thrown on every rank.
std::string write_checkpoint(const comm::Communicator& communicator, const CheckpointFolder& folder,
                             Manifest manifest, const State& state, const Retention& retention);

// The state that each rank has in a verified checkpoint. Rank 0 alone reads files, and hands on
// what is in them, however long that takes. Collective.
State read_checkpoint(const comm::Communicator& communicator, const std::string& path,
                      const Manifest& manifest);
// The same, read by every rank for itself.
State read_checkpoint(const std::string& path, const Manifest& manifest, int rank, int world);

// Copies tensors of the same names into a module's. Throws UsageError that lists names and shapes
// which differ (of the file, of the model), up to a dozen of each.
void load_module(torch::nn::Module& module, const State& state, const std::string& from);

// What load_weights did and did not use.
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
// file without "num_batches_tracked" entries counts as complete.
WeightsReport load_weights(torch::nn::Module& module, const std::string& file, bool partial);

}  // namespace convoy::train
