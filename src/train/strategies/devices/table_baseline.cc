// The table as Torch's DataParallelTable has it: everything by the first device, step by step.
#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "convoy/train/training_loss.h"
#include "train/strategies/devices/table.h"

namespace convoy::train {
namespace {

torch::Tensor copied_to(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void DeviceTable::baseline(const Work& work) {
  std::size_t parts = 0;
  for (const DeviceShare& share : work.shares) parts = std::max(parts, share.parts.size());
  auto start = Clock::now();
  team_.run_on_first([&] { stage(work); });
  for (std::size_t part = 0; part < parts; ++part) {
    team_.run([&](std::size_t device) { hand_out(work, part, device); });
    team_.run([&](std::size_t device) { run_forward(work, part, device); });
    team_.run_on_first([&] { compute_losses(work, part); });
    forward_s_ += seconds_since(start);
    if (part + 1 == parts) work.use_loss(loss_of_all());
    start = Clock::now();
    team_.run([&](std::size_t device) { run_backward(work, part, device); });
    if (part == 0 && work.shares.front().parts.size() > 1) {
      work.use_first_part(work.shares.front().parts.front().weight, work.shares.front().weight());
    }
    backward_s_ += seconds_since(start);
    start = Clock::now();
  }
  staged_.clear();
  sum_given_gradients(work);
}

// The whole batch, on the first device.
void DeviceTable::stage(const Work& work) {
  const Task& task = context_.task();
  Lane& first = lanes_.front();
  const c10::OptionalDeviceGuard guard(gpu_of(first.compute.device()));
  const auto start = Clock::now();
  const auto samples = static_cast<std::int64_t>(work.batch.size());
  const TaskBatch all = task.tensors(work.batch, {0, work.batch.size()}, first.compute);
  staged_ = in_own_memory(task.inputs(all));
  for (const torch::Tensor& input : staged_) {
    if (input.dim() == 0 || input.size(0) % samples != 0) {
      throw UsageError("sync.table is baseline, which cuts a batch on the first device; the task " +
                       context_.recipe().task.name +
                       " has inputs that are not as many rows for each sample: set sync.table = "
                       "\"optimized\"");
    }
    first.staged_bytes += input.nbytes();
  }
  end_of(first, "stage", start);
}

// Its rows, from the first device to this one, and the weights with the first of them.
void DeviceTable::hand_out(const Work& work, std::size_t part, std::size_t device) {
  Lane& lane = lanes_[device];
  const c10::OptionalDeviceGuard guard(gpu_of(lane.compute.device()));
  if (part == 0) take_weights(device);
  const std::vector<SharePart>& parts = work.shares[device].parts;
  if (part >= parts.size()) return;
  const auto start = Clock::now();
  const data::Range rows = parts[part].rows;
  for (const torch::Tensor& input : staged_) {
    const std::int64_t each = input.size(0) / static_cast<std::int64_t>(work.batch.size());
    const torch::Tensor own =
        copied_to(input.narrow(0, static_cast<std::int64_t>(rows.begin) * each,
                               static_cast<std::int64_t>(rows.size()) * each),
                  lane.compute.device());
    if (device > 0) lane.staged_bytes += own.nbytes();
    lane.inputs.push_back(own);
  }
  lane.rows = context_.task().targets(work.batch, rows, lanes_.front().compute);
  end_of(lane, "inputs", start);
}

void DeviceTable::run_forward(const Work& work, std::size_t part, std::size_t device) {
  if (part >= work.shares[device].parts.size()) return;
  Lane& lane = lanes_[device];
  const c10::OptionalDeviceGuard guard(gpu_of(lane.compute.device()));
  const auto start = Clock::now();
  const model::RandomScope random = random_scope(lane.rows.samples);
  const Autocast autocast = lane.compute.autocast();
  const parallel::ForwardScope scope(core_, device, work.shares[device].weight());
  lane.outputs = replicas_[device]->run(lane.inputs);
  end_of(lane, "forward", start);
}

// By the first device: of its own rows, then of those of the others.
void DeviceTable::compute_losses(const Work& work, std::size_t part) {
  Lane& first = lanes_.front();
  const c10::OptionalDeviceGuard guard(gpu_of(first.compute.device()));
  const auto start = Clock::now();
  for (std::size_t device = 0; device < lanes_.size(); ++device) {
    const DeviceShare& share = work.shares[device];
    if (part < share.parts.size()) compute_loss(device, share.parts[part], share.weight());
  }
  end_of(first, "losses", start);
}

void DeviceTable::compute_loss(std::size_t device, const SharePart& part, double all) {
  Lane &first = lanes_.front(), &lane = lanes_[device];
  for (const torch::Tensor& output : lane.outputs) {
    if (!output.defined()) {
      lane.gathered.emplace_back();
      continue;
    }
    torch::Tensor here = output.detach();
    if (device > 0) {
      here = copied_to(here, first.compute.device());
      first.staged_bytes += here.nbytes();
    }
    here.requires_grad_(output.requires_grad());
    lane.gathered.push_back(here);
  }
  torch::Tensor loss;
  {
    const Autocast autocast = first.compute.autocast();
    // Copies: a loss may change in place what a network has made, but no leaves.
    TensorList outputs;
    for (const torch::Tensor& output : lane.gathered)
      outputs.push_back(output.defined() ? output.clone() : output);
    loss = training_loss(context_.task(), auxiliary_, outputs, lane.rows);
  }
  lane.loss += loss.item<double>() * part.weight;
  if (accumulate() > 1) loss = loss * (part.weight / all);
  loss.backward();
}

// From the gradients of its outputs, which the first device has.
void DeviceTable::run_backward(const Work& work, std::size_t part, std::size_t device) {
  if (part >= work.shares[device].parts.size()) return;
  Lane& lane = lanes_[device];
  const c10::OptionalDeviceGuard guard(gpu_of(lane.compute.device()));
  const auto start = Clock::now();
  TensorList roots, gradients;
  for (std::size_t i = 0; i < lane.outputs.size(); ++i) {
    const torch::Tensor& output = lane.outputs[i];
    if (!output.defined() || !output.requires_grad()) continue;
    torch::Tensor gradient = lane.gathered[i].grad();
    if (!gradient.defined()) continue;  // the loss doesn't depend on it
    if (device > 0) {
      gradient = copied_to(gradient, lane.compute.device());
      lane.staged_bytes += gradient.nbytes();
    }
    roots.push_back(output);
    gradients.push_back(gradient);
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  lane.inputs.clear();
  lane.outputs.clear();
  lane.gathered.clear();
  lane.rows = {};
  end_of(lane, "backward", start);
}

}  // namespace convoy::train
