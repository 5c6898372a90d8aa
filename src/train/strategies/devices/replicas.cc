#include "train/strategies/devices/replicas.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/gradient_reducer.h"
#include "model/keep_modes.h"
#include "train/compute/device.h"
#include "train/compute/gpu.h"

namespace convoy::train {

void check_replicas_fit(const comm::Communicator& all, const torch::nn::Module& first,
                        const Recipe& recipe, int ranks) {
  if (recipe.device != "cpu") return;
  // All ranks have made their first replica, and none makes another before all have looked.
  all.barrier();
  std::vector<std::int64_t> room{std::numeric_limits<std::int64_t>::max()};
  if (host_memory() != 0)
    room.front() = static_cast<std::int64_t>(available_memory()) / std::max(1, ranks);
  all.allreduce(comm::buffer_of(room), comm::ReduceOp::min);
  const auto free = static_cast<std::uint64_t>(room.front());
  // A reproducible sum has each gradient once more, where it is a contribution of its own.
  const std::uint64_t trained = recipe.strategy_options.flag("reproducible") ? 3U : 2U;
  std::uint64_t each = 0;
  for (const auto& parameter : parallel::unique_parameters(first))
    each += parameter.tensor.nbytes() * (parameter.tensor.requires_grad() ? trained : 1U);
  for (const auto& buffer : parallel::unique_buffers(first)) each += buffer.tensor.nbytes();
  const std::int64_t devices = devices_of(recipe).devices;
  const std::uint64_t more = each * static_cast<std::uint64_t>(devices - 1);
  if (more <= free) return;
  throw UsageError(
      "sync.devices is " + std::to_string(devices) + ": the replicas besides the first take " +
      format_bytes(more) + " (" + format_bytes(each) +
      " each, of weights, gradients and buffers), and a rank has " + format_bytes(free) +
      ": there is room for " + std::to_string(1 + free / std::max<std::uint64_t>(1, each)) +
      (free < each ? " device" : " devices"));
}

GeneratorState::GeneratorState(const torch::Device& device)
    : generator_(device.is_cuda() ? at::globalContext().defaultGenerator(device)
                                  : at::detail::getDefaultCPUGenerator()),
      state_(generator_.get_state()) {}

void GeneratorState::check_untouched(const std::string& model) const {
  if (generator_.get_state().equal(state_)) return;
  throw UsageError("the model '" + model +
                   "' draws random numbers from LibTorch's generator, which is one for all devices "
                   "of a rank, so that what each gets would depend on who comes first: take "
                   "convoy::model::Dropout for torch::nn::Dropout, or set sync.devices = 1");
}

void check_draws_nothing(model::Network& network, const Task& task, const Compute& compute,
                         const std::string& model) {
  const std::array<std::size_t, 2> samples{0, 1};
  const TaskBatch blank = task.blank(static_cast<std::int64_t>(samples.size()), compute);
  if (blank.tensors.empty()) return;
  const torch::NoGradGuard no_grad;
  const model::KeepModes modes(network);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> before;  // buffers, and what was in them
  for (const torch::Tensor& buffer : network.buffers()) {
    if (buffer.defined()) before.emplace_back(buffer, buffer.clone());
  }
  if (!network.is_training()) network.train();
  const GeneratorState state(compute.device());
  try {
    const model::RandomScope scope(0, 0, samples);
    network.run(task.inputs(blank));
  } catch (const c10::Error&) {  // said better where it is trained
  }
  for (auto& [buffer, values] : before) buffer.copy_(values);
  state.check_untouched(model);
}

std::vector<torch::Device> places_of_devices(const comm::World& world, const Recipe& recipe,
                                             const torch::Device& device, bool synchronized) {
  const DeviceRecipe own = devices_of(recipe);
  const auto devices = static_cast<std::size_t>(own.devices);
  if (!device.is_cuda()) return std::vector<torch::Device>(devices, device);
  const std::int64_t there = gpus();
  // Ranks of a host have GPUs next to each other, unless the recipe says where to begin ("cuda:2").
  const bool numbered = recipe.device.find(':') != std::string::npos && device.has_index();
  const std::int64_t first = numbered ? device.index()
                                      : first_gpu(environment("CONVOY_FIRST_GPU")).value_or(0) +
                                            std::int64_t{world.local_rank()} * own.devices;
  std::vector<torch::Device> places;
  std::set<std::int64_t> used;
  for (std::size_t d = 0; d < devices; ++d) {
    const std::int64_t gpu =
        own.gpus.empty() ? first + static_cast<std::int64_t>(d) : own.gpus.at(d);
    if (gpu >= there) {
      throw UsageError("device " + std::to_string(d) + " of rank " + std::to_string(world.rank()) +
                       " would be GPU " + std::to_string(gpu) + ", and host " +
                       world.host(world.rank()) + " has " + std::to_string(there) +
                       ", counted from 0: lower sync.devices, or name those that are there in "
                       "sync.gpus, which may name one several times");
    }
    if (!used.insert(gpu).second && synchronized) {
      throw UsageError("sync.gpus names GPU " + std::to_string(gpu) +
                       " twice, and sync.batch_norm is synchronized, for which each device needs a "
                       "GPU of its own: set sync.batch_norm = \"local\"");
    }
    places.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  }
  return places;
}

}  // namespace convoy::train
