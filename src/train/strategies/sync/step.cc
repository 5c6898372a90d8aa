// One update of the strategy sync, on one device of this rank or on several.
#include <algorithm>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/clip.h"
#include "convoy/train/training_loss.h"
#include "train/fault/found.h"
#include "train/fault/watch.h"
#include "train/strategies/sync/strategy.h"

namespace convoy::train {

void Sync::start_tally(double loss, double weight, std::size_t samples) {
  tally_.start({loss, weight, samples,
                context_->samples().statistics().skipped + left_out_.samples(),
                context_->requests()});
}

// Those that count nothing are left out: a mean over them would be no number.
std::vector<SharePart> Sync::parts_of(const data::Batch& batch, data::Range share) const {
  if (share.size() < least_share_) return {};
  const Recipe& recipe = context_->recipe();
  const int used = std::clamp(static_cast<int>(share.size() / least_share_), 1,
                              static_cast<int>(recipe.training.accumulate));
  std::vector<SharePart> parts;
  for (int part = 0; part < used; ++part) {
    const data::Range rows = data::even_share(share, part, used);
    const double weight = weight_of(*context_, batch, rows);
    if (weight > 0) {
      parts.push_back({rows, weight, part});
    } else if (synchronized_ && communicator_.size() * devices_ > 1) {
      throw UsageError("sync.batch_norm is synchronized, so every " + std::string(sharers().name) +
                       " takes part in every micro-batch; the task " + recipe.task.name +
                       " says that one of them counts nothing, with sample " +
                       std::to_string(batch.samples[rows.begin]) +
                       ": set sync.batch_norm = \"local\"");
    }
  }
  return parts;
}

void Sync::forward_and_backward(const data::Batch& batch, const std::vector<SharePart>& parts,
                                StepReport& report) {
  const Recipe& recipe = context_->recipe();
  const Task& task = context_->task();
  const auto accumulate = static_cast<std::size_t>(recipe.training.accumulate);
  FaultWatch* const watch = FaultWatch::current();
  double all = 0, loss_sum = 0;
  for (const SharePart& part : parts) all += part.weight;
  for (const SharePart& part : parts) {
    auto start = Clock::now();
    const TaskBatch rows = task.tensors(batch, part.rows, context_->compute());
    torch::Tensor loss;
    if (watch != nullptr) watch->begin_part(rows, part.index);
    {
      const model::RandomScope scope(static_cast<std::uint64_t>(recipe.seed),
                                     static_cast<std::uint64_t>(context_->moment().step),
                                     rows.samples);
      const Autocast autocast = context_->compute().autocast();
      const TensorList outputs = model_->run(part.weight, all, [&](model::Network& network) {
        return network.run(task.inputs(rows));
      });
      if (watch != nullptr) watch->has_outputs(outputs);
      loss = training_loss(task, auxiliary_, outputs, rows);
    }
    loss_sum += loss.item<double>() * part.weight;
    if (accumulate > 1) loss = loss * (part.weight / all);
    if (watch != nullptr) watch->has_loss(loss);
    report.forward_s += phases_.end_of("forward", start);
    start = Clock::now();
    if (&part != &parts.back()) {
      const auto quiet = model_->no_sync();
      loss.backward();
      if (&part == &parts.front()) noise_.first_part(part.weight, all);
    } else {
      // A rank's weight is its samples per micro-batch: all ranks count the same number of those.
      for (std::size_t rest = parts.size(); rest < accumulate; ++rest)
        model_->reducer().count_samples(0);
      start_tally(loss_sum, all, batch.size());
      loss.backward();
    }
    report.backward_s += phases_.end_of("backward", start);
  }
}

// False: no rank has a sample that counts.
bool Sync::compute(const data::Batch& batch, StepReport& report) {
  const std::vector<SharePart> parts = parts_of(batch, {0, batch.size()});
  if (batch.size() < least_share_) {
    // Of a batch that is run once more they have been added.
    if (FaultWatch::current() == nullptr) left_out_.add(*context_, batch);
    start_tally(0, 0, 0);
    return reducer().join_with_zeros();
  }
  if (parts.empty()) {
    start_tally(0, 0, batch.size());
    return reducer().join_with_zeros();
  }
  forward_and_backward(batch, parts, report);
  return true;
}

// Does so with as many of the devices as there are samples for.
bool Sync::compute_on_devices(const data::Batch& batch, StepReport& report) {
  const bool enough = batch.size() >= least_share_;
  if (!enough) left_out_.add(*context_, batch);
  std::vector<DeviceShare> shares(static_cast<std::size_t>(devices_));
  const int used =
      std::clamp(static_cast<int>(batch.size() / least_share_), 1, static_cast<int>(devices_));
  double all = 0;
  for (int device = 0; device < used && enough; ++device) {
    DeviceShare& share = shares[static_cast<std::size_t>(device)];
    share.parts = parts_of(batch, data::even_share({0, batch.size()}, device, used));
    all += share.weight();
  }
  if (!(all > 0)) {
    start_tally(0, 0, enough ? batch.size() : 0);
    return reducer().join_with_zeros();
  }
  const auto start = Clock::now();
  table_->compute(
      {.batch = batch,
       .shares = shares,
       .use_loss = [&](double loss) { start_tally(loss, all, batch.size()); },
       .use_first_part = [this](double part, double total) { noise_.first_part(part, total); },
       .timeline = phases_.timeline()},
      report);
  phases_.end_of("devices", start);
  return true;
}

StepReport Sync::step(const data::Batch& batch) {
  const Recipe& recipe = context_->recipe();
  StepReport report;
  report.learning_rate = context_->schedule().at(context_->moment());
  optimizer_->set_learning_rate(report.learning_rate);
  seed_generator(*context_);
  const double exposed = reducer().statistics().exposed_seconds;
  const parallel::NormalizationSeconds normalized = normalization_seconds();
  optimizer_->zero_grad();
  noise_.begin(context_->moment().step);
  const bool update = table_ ? compute_on_devices(batch, report) : compute(batch, report);
  const double in_forward = normalization_seconds().forward - normalized.forward;
  const double in_backward = normalization_seconds().backward - normalized.backward +
                             reducer().statistics().exposed_seconds - exposed;
  report.communication_s = in_forward + in_backward;
  report.forward_s = std::max(0.0, report.forward_s - in_forward);
  report.backward_s = std::max(0.0, report.backward_s - in_backward);
  // Under way since before backward; an update is not made where the loss is no number either.
  tally_.finish(report);
  const auto start = Clock::now();
  if (update) {
    noise_.whole_batch();
    if (may_update(report, parallel::clip_grad_norm(tensors_, recipe.training.clip_norm),
                   parameters_))
      optimizer_->step();
  }
  report.update_s = phases_.end_of("update", start);
  report.noise = noise_.finish(report.weight);
  tell_of_noise(report);
  return report;
}

// With one device everything is done again, in the same order on all ranks, sums of gradients and
// statistics of batch normalization included: so no rank waits for one that does something else.
// Weights are the same, random numbers are drawn by the number of the step, and no update is made.
FoundFault Sync::look_for_fault(const data::Batch& batch) {
  if (table_) {
    return {.text =
                "with several devices of a rank (sync.devices) no batch is run once more to "
                "find out why"};
  }
  FaultWatch watch(*network_, context_->training_data());
  const bool again = !has_finite_numbers(step(batch));
  return found_fault(communicator_, watch.found(), again,
                     context_->recipe().training.accumulate > 1);
}

// Where the first update that is to be measured can't be, others can't either, but for the rest of
// an epoch: whoever asked for the noise would wait for it in vain.
void Sync::tell_of_noise(const StepReport& report) {
  if (noise_told_ || !noise_.due() || !(report.weight > 0)) return;
  noise_told_ = true;
  if (report.noise || communicator_.rank() != 0) return;
  context_->world().log().warning(
      "training.noise_every: update " + std::to_string(context_->moment().step + 1) +
      " says nothing of the gradient's noise, since no rank's share of its batch can be cut into "
      "two micro-batches that count, of " +
      std::to_string(least_share_) +
      (least_share_ == 1 ? " sample" : " samples, with which the model can be trained,") +
      " at least; set a larger training.batch");
}

void Sync::run() {
  make_updates(
      *context_, tally_, phases_,
      [this](Timeline* timeline) {
        rows_.reset();
        if (timeline != nullptr) rows_.emplace(*timeline, reducer());
      },
      [this](const data::Batch& batch) {
        StepReport report = step(batch);
        if (!has_finite_numbers(report) && context_->ends_at_faults())
          report.fault = look_for_fault(batch);
        return report;
      },
      /*ahead=*/!table_);
}

}  // namespace convoy::train
