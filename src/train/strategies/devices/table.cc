#include "train/strategies/devices/table.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "comm/calling_threads.h"
#include "convoy/base/error.h"
#include "convoy/train/training_loss.h"
#include "parallel/reduction_step.h"
#include "train/strategies/devices/replicas.h"

namespace convoy::train {
namespace {

std::vector<std::shared_ptr<torch::nn::Module>> as_modules(
    const std::vector<std::shared_ptr<model::Network>>& replicas) {
  return {replicas.begin(), replicas.end()};
}

int threads_of_each(std::size_t devices) {
  return std::max(1, at::get_num_threads() / static_cast<int>(devices));
}

// These rows as a batch of their own, so that no more than they are is converted, or copied to a
// device.
data::Batch batch_of_rows(const data::Batch& batch, data::Range rows) {
  const auto cut = [&rows](auto span, std::size_t each) {
    return span.empty() ? span : span.subspan(rows.begin * each, rows.size() * each);
  };
  const std::size_t values = static_cast<std::size_t>(batch.views) * batch.shape.elements();
  data::Batch part = batch;
  part.bytes = cut(batch.bytes, values * data::size_of(batch.pixel));
  part.images = cut(batch.images, values);
  part.records = cut(batch.records, 1);
  part.labels = cut(batch.labels, 1);
  part.label_lists = cut(batch.label_lists, 1);
  part.samples = cut(batch.samples, 1);
  part.number = 0;  // it is none of the source's
  return part;
}

}  // namespace

TensorList in_own_memory(TensorList tensors) {
  for (torch::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cpu()) tensor = tensor.clone();
  }
  return tensors;
}

std::vector<DeviceTable::Lane> DeviceTable::lanes_of(
    const TrainerContext& context, const std::vector<std::shared_ptr<model::Network>>& replicas,
    const parallel::DistributedOptions& options) {
  const Compute& compute = context.compute();
  const std::vector<torch::Device> places =
      places_of_devices(context.world(), context.recipe(), compute.device(),
                        options.batch_norm == parallel::BatchNormStatistics::synchronized);
  std::vector<Lane> lanes;
  for (std::size_t device = 0; device < replicas.size(); ++device) {
    const c10::OptionalDeviceGuard guard(gpu_of(places.at(device)));
    Lane& lane = lanes.emplace_back(Lane{.compute = compute.on(places.at(device))});
    lane.compute.place(*replicas[device]);
    for (const auto& parameter : parallel::unique_parameters(*replicas[device])) {
      if (parameter.tensor.requires_grad()) lane.trained.push_back(parameter);
    }
  }
  return lanes;
}

DeviceTable::DeviceTable(TrainerContext& context,
                         std::vector<std::shared_ptr<model::Network>> replicas,
                         std::vector<double> auxiliary, const parallel::DistributedOptions& options)
    : context_(context),
      recipe_(devices_of(context.recipe())),
      auxiliary_(std::move(auxiliary)),
      replicas_(std::move(replicas)),
      lanes_(lanes_of(context, replicas_, options)),
      core_(context.world().communicator(), as_modules(replicas_), options),
      allow_unused_(options.allow_unused),
      sums_afterwards_(recipe_.baseline || context.compute().device().is_cuda() ||
                       !devices_may_communicate(context.world())),
      team_(replicas_.size(), threads_of_each(replicas_.size()), context.world().rank()) {
  team_.set_on_failure([this](const std::string& why) {
    core_.fail(why);
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
    }
    changed_.notify_all();
  });
  if (sums_afterwards_) reducer().set_synchronizing(false);
  const int threads = at::get_num_threads();
  if (context.compute().device().is_cuda() || context.world().rank() != 0 ||
      recipe_.devices <= threads)
    return;
  context.world().log().warning("sync.devices is " + std::to_string(recipe_.devices) +
                                ", and a rank has " + std::to_string(threads) +
                                (threads == 1 ? " thread" : " threads") +
                                ": each device gets one, and they share cores");
}

bool DeviceTable::devices_may_communicate(const comm::World& world) {
  return world.size() == 1 || comm::any_thread_may_call(world.communicator());
}

std::vector<std::vector<parallel::NamedTensor>> DeviceTable::buffers() const {
  std::vector<std::vector<parallel::NamedTensor>> all;
  for (const auto& replica : replicas_) all.push_back(parallel::unique_buffers(*replica));
  return all;
}

TensorList DeviceTable::forward(const TensorList& inputs) {
  const torch::Device& place = lanes_.front().compute.device();
  if (!place.is_cuda()) return replicas_.front()->run(inputs);
  const c10::OptionalDeviceGuard guard(gpu_of(place));
  TensorList moved;
  for (const torch::Tensor& input : inputs) moved.push_back(input.to(place));
  TensorList outputs = replicas_.front()->run(moved);
  for (torch::Tensor& output : outputs) {
    if (output.defined() && !inputs.empty()) output = output.to(inputs.front().device());
  }
  return outputs;
}

model::RandomScope DeviceTable::random_scope(std::span<const std::size_t> samples) const {
  return model::RandomScope(static_cast<std::uint64_t>(context_.recipe().seed),
                            static_cast<std::uint64_t>(context_.moment().step), samples);
}

// In the order of devices, whichever is done first.
double DeviceTable::loss_of_all() const {
  double loss = 0;
  for (const Lane& lane : lanes_) loss += lane.loss;
  return loss;
}

double DeviceTable::end_of(Lane& lane, const char* name, Clock::time_point begin) const {
  const auto now = Clock::now();
  if (recording_) lane.spans.push_back({name, begin, now});
  return std::chrono::duration<double>(now - begin).count();
}

void DeviceTable::compute(const Work& work, StepReport& report) {
  const double waited = reducer().statistics().source_wait_seconds;
  std::vector<GeneratorState> generators;  // of each place, of which devices may share one
  std::set<std::string> places;
  for (const Lane& lane : lanes_) {
    const torch::Device& place = lane.compute.device();
    if (!draws_are_known_ && places.insert(place.str()).second) generators.emplace_back(place);
  }
  begin(work);
  if (recipe_.baseline)
    baseline(work);
  else
    optimized(work);
  // No device computes now; the update makes converted weights outdated.
  at::autocast::clear_cache();
  // Where the task can't make up samples to try it with before.
  for (const GeneratorState& generator : generators)
    generator.check_untouched(context_.recipe().model.name);
  draws_are_known_ = true;
  report_on(work, report, waited);
}

void DeviceTable::begin(const Work& work) {
  recording_ = work.timeline != nullptr;
  forward_s_ = backward_s_ = sum_s_ = 0;
  losses_ = 0;
  for (std::size_t device = 0; device < lanes_.size(); ++device) {
    Lane& lane = lanes_[device];
    lane.forward_s = lane.backward_s = lane.loss = 0;
    lane.staged_bytes = 0;
    lane.spans.clear();
    // They refer to the sum of all devices.
    for (const auto& parameter : lane.trained) parameter.tensor.mutable_grad() = at::Tensor();
    const std::vector<SharePart>& parts = work.shares.at(device).parts;
    const int source = static_cast<int>(device);
    // A device's weight is its samples per micro-batch: all count the same number of those.
    for (const SharePart& part : parts) reducer().count_samples(part.weight, source);
    for (std::size_t rest = parts.size(); rest < accumulate(); ++rest)
      reducer().count_samples(0, source);
  }
  reducer().check_parameters();
}

// The broadcast of Algorithm 1, by each device's own thread.
void DeviceTable::take_weights(std::size_t device) {
  if (device == 0) return;
  const torch::NoGradGuard no_grad;
  Lane& lane = lanes_[device];
  const auto start = Clock::now();
  for (std::size_t i = 0; i < lane.trained.size(); ++i)
    lane.trained[i].tensor.copy_(lanes_.front().trained[i].tensor);
  end_of(lane, "weights", start);
}

void DeviceTable::optimized(const Work& work) {
  const auto working = static_cast<std::size_t>(
      std::count_if(work.shares.begin(), work.shares.end(),
                    [](const DeviceShare& share) { return !share.parts.empty(); }));
  team_.run([&](std::size_t device) { run_device(work, device); },
            [&] {
              if (wait_for_losses(working)) work.use_loss(loss_of_all());
            });
  for (const Lane& lane : lanes_) {
    forward_s_ = std::max(forward_s_, lane.forward_s);
    backward_s_ = std::max(backward_s_, lane.backward_s);
  }
  if (sums_afterwards_) sum_given_gradients(work);
}

void DeviceTable::run_device(const Work& work, std::size_t device) {
  const c10::OptionalDeviceGuard guard(gpu_of(lanes_[device].compute.device()));
  take_weights(device);
  const DeviceShare& share = work.shares[device];
  for (const SharePart& part : share.parts) run_part(work, device, part);
  if (!share.parts.empty() || sums_afterwards_) return;
  const int source = static_cast<int>(device);
  reducer().set_synchronizing(true, source);
  reducer().skip(source);
}

void DeviceTable::run_part(const Work& work, std::size_t device, const SharePart& part) {
  const DeviceShare& share = work.shares[device];
  const bool first = &part == &share.parts.front(), last = &part == &share.parts.back();
  const double all = share.weight();
  const Task& task = context_.task();
  Lane& lane = lanes_[device];
  auto start = Clock::now();
  const data::Batch own = batch_of_rows(work.batch, part.rows);
  const TaskBatch rows = task.tensors(own, {0, own.size()}, lane.compute);
  torch::Tensor loss;
  {
    const model::RandomScope random = random_scope(rows.samples);
    const Autocast autocast = lane.compute.autocast();
    TensorList outputs;
    {
      const parallel::ForwardScope scope(core_, device, all);
      outputs = replicas_[device]->run(in_own_memory(task.inputs(rows)));
    }
    loss = training_loss(task, auxiliary_, outputs, rows);
  }
  lane.loss += loss.item<double>() * part.weight;
  if (accumulate() > 1) loss = loss * (part.weight / all);
  lane.forward_s += end_of(lane, "forward", start);
  start = Clock::now();
  if (!sums_afterwards_) reducer().set_synchronizing(last, static_cast<int>(device));
  if (last) loss_is_there();
  loss.backward();
  if (device == 0 && first && !last) work.use_first_part(part.weight, all);
  lane.backward_s += end_of(lane, "backward", start);
}

void DeviceTable::loss_is_there() {
  {
    const std::lock_guard lock(mutex_);
    ++losses_;
  }
  changed_.notify_all();
}

// False: a device has failed.
bool DeviceTable::wait_for_losses(std::size_t working) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return losses_ == working || failed_; });
  return !failed_;
}

// A device that has samples has gradients for all of its parameters, unless it may lack some.
void DeviceTable::check_given_gradients(const Work& work) const {
  for (std::size_t device = 0; device < lanes_.size() && !allow_unused_; ++device) {
    if (work.shares[device].parts.empty()) continue;
    std::string names;
    for (const auto& parameter : lanes_[device].trained) {
      if (!parameter.tensor.grad().defined()) names += (names.empty() ? "" : ", ") + parameter.name;
    }
    if (names.empty()) continue;
    throw UsageError(parallel::without_gradient("device " + std::to_string(device) + " of rank " +
                                                    std::to_string(context_.world().rank()) + ": ",
                                                names));
  }
}

void DeviceTable::sum_given_gradients(const Work& work) {
  const auto start = Clock::now();
  check_given_gradients(work);
  // In the order in which backward has brought them, about.
  for (std::size_t i = lanes_.front().trained.size(); i-- > 0;) {
    for (std::size_t device = 0; device < lanes_.size(); ++device)
      reducer().give_gradient(i, static_cast<int>(device));
  }
  reducer().finish_step();
  sum_s_ = seconds_since(start);
}

void DeviceTable::report_on(const Work& work, StepReport& report, double waited_before) {
  const Team::Counts counts = team_.take_counts();
  const auto devices = static_cast<double>(lanes_.size());
  report.forward_s += forward_s_;
  report.backward_s += backward_s_ + sum_s_;
  double staged = 0;
  for (const Lane& lane : lanes_) staged += static_cast<double>(lane.staged_bytes);
  const double waited =
      counts.wait_s + reducer().statistics().source_wait_seconds - waited_before + sum_s_ * devices;
  const double hand_overs = static_cast<double>(counts.hand_overs) + (sums_afterwards_ ? 1.0 : 0.0);
  report.more.numbers.insert(report.more.numbers.end(), {{"device_staged_bytes", staged},
                                                         {"device_hand_overs", hand_overs},
                                                         {"device_wait_s", waited}});
  if (work.timeline == nullptr) return;
  for (std::size_t device = 0; device < lanes_.size(); ++device) {
    const int row = kFirstRow + static_cast<int>(device);
    work.timeline->name_row(row, "device " + std::to_string(device));
    for (const Span& span : lanes_[device].spans)
      work.timeline->add(row, span.name, span.begin, span.end);
  }
}

}  // namespace convoy::train
