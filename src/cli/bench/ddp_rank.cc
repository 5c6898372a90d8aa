#include "cli/bench/ddp_rank.h"

#include <torch/torch.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "cli/bench/rank_job.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/rehearsal.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/state.h"

namespace convoy::cli {
namespace {

// In the layout that everybody reads, whatever the network's is.
void write_first_weights(const torch::nn::Module& module, const std::string& path) {
  train::State state;
  train::describe_module(module, state);
  std::vector<torch::Tensor> kept;  // what the views are of
  std::vector<train::TensorView> views;
  for (const auto& [name, tensor] : state.model) {
    const bool counts = tensor.scalar_type() == torch::kLong;
    kept.push_back(tensor.detach().to(counts ? torch::kLong : torch::kFloat).contiguous());
    const torch::Tensor& plain = kept.back();
    views.push_back({name, counts ? "I64" : "F32", plain.sizes().vec(),
                     std::span(static_cast<const std::byte*>(plain.data_ptr()), plain.nbytes())});
  }
  train::write_safetensors(path, views);
}

}  // namespace

void serve_ddp_rank(const comm::World& world, const train::Recipe& recipe,
                    const train::Registry& registry, const std::string& folder) {
  train::Rehearsal training(world, registry, recipe);
  if (world.rank() == 0)
    write_first_weights(training.strategy().module(), folder + "/weights.safetensors");
  LineChannel turns =
      join_turns(folder, {world.rank(), bound_cores(), static_cast<int>(at::get_num_threads())});
  std::string line;
  while (turns.read_line(line, Clock::time_point::max()) == LineChannel::Got::line) {
    const int steps = std::stoi(line);
    world.communicator().barrier();
    const auto start = Clock::now();
    const std::vector<train::StepReport> reports = training.make_updates(steps);
    const double seconds = seconds_since(start);
    std::vector<double> losses;
    for (const train::StepReport& report : reports) losses.push_back(report.loss);
    turns.write_line(
        nlohmann::json{{"seconds", seconds}, {"losses", losses}, {"torch", TORCH_VERSION}}.dump());
  }
}

}  // namespace convoy::cli
