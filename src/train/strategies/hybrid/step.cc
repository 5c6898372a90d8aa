#include <algorithm>
#include <cmath>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/model/randomness.h"
#include "train/channels.h"
#include "train/strategies/hybrid/strategy.h"

namespace convoy::train {

// Nothing for a share that can't be trained on, or counts nothing.
HybridShare Hybrid::share_of(const data::Batch& batch) {
  HybridShare share;
  const auto me = static_cast<std::size_t>(grid_->partition());
  std::vector<std::size_t> shares(static_cast<std::size_t>(grid_->shape().partitions), 0);
  share.weights.resize(rounds_of(shares).size(), 0);
  if (batch.size() < least_share_) {
    left_out_.add(*context_, batch);
    return share;
  }
  shares[me] = batch.size();
  const std::vector<Round> rounds = rounds_of(shares);
  for (std::size_t j = 0; j < rounds.size(); ++j) {
    const data::Range& piece = rounds[j].pieces[me];
    if (piece.empty()) continue;
    share.weights[j] = weight_of(*context_, batch, piece);
    share.weight += share.weights[j];
  }
  if (share.weight > 0) share.samples = batch.size();
  if (share.weight == 0 && synchronized_ && communicator_.size() > 1) {
    throw UsageError(
        "hybrid.batch_norm is synchronized, so every rank takes part in every step; the task " +
        context_->recipe().task.name + " says that the share of one counts nothing, with sample " +
        std::to_string(batch.samples.front()) + ": set hybrid.batch_norm = \"local\"");
  }
  return share;
}

// What each rank has is told to all while `meanwhile` runs.
HybridWhole Hybrid::whole_of_all(const std::function<void()>& meanwhile, const HybridShare& share,
                                 StepReport& report) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<double> told(ranks + share.weights.size(), 0);
  told[static_cast<std::size_t>(communicator_.rank())] = static_cast<double>(share.samples);
  std::copy(share.weights.begin(), share.weights.end(),
            told.begin() + static_cast<std::ptrdiff_t>(ranks));
  comm::Operation sum =
      communicator_.start_allreduce(comm::buffer_of(told), comm::ReduceOp::sum, channels::kShares);
  meanwhile();
  const auto asked = Clock::now();
  sum.wait();
  report.communication_s += phases_.end_of("exposed communication", asked);
  HybridWhole whole;
  const auto partitions = static_cast<std::size_t>(grid_->shape().partitions);
  const std::size_t first = static_cast<std::size_t>(grid_->replica()) * partitions;
  for (std::size_t p = 0; p < partitions; ++p)
    whole.group.push_back(static_cast<std::size_t>(told[first + p]));
  whole.weights.assign(told.begin() + static_cast<std::ptrdiff_t>(ranks), told.end());
  for (const double weight : whole.weights) whole.weight += weight;
  return whole;
}

// What the partitioned layers get of these rows.
torch::Tensor Hybrid::boundary_of(const Task& task, const TaskBatch& rows, std::size_t samples,
                                  std::int64_t views, double weight) {
  TensorList outputs;
  {
    const Autocast autocast = compute_->autocast();
    const TensorList inputs = task.inputs(rows);
    const auto use = [&](model::StagedNetwork& trunk) { return trunk.run(inputs); };
    outputs = trunk_ ? trunk_->run(weight, use) : use(network_->trunk());
  }
  const torch::Tensor& boundary = outputs.front();
  const std::int64_t wanted = static_cast<std::int64_t>(samples) * views;
  if (boundary.dim() == 2 && boundary.size(0) == wanted) return boundary;
  std::ostringstream text;
  text << "hybrid needs a row for each sample before '" << network_->head().front().name << "'; of "
       << wanted << " the layers before it make " << boundary.sizes();
  throw UsageError(text.str());
}

torch::Tensor Hybrid::trunk_forward(const data::Batch& batch, const HybridShare& share,
                                    StepReport& report) {
  if (share.samples == 0) return {};
  const auto start = Clock::now();
  const TaskBatch rows = context_->task().tensors(batch, {0, batch.size()}, context_->compute());
  const model::RandomScope scope(static_cast<std::uint64_t>(context_->recipe().seed),
                                 static_cast<std::uint64_t>(context_->moment().step), rows.samples);
  const torch::Tensor boundary =
      boundary_of(context_->task(), rows, share.samples, batch.views, share.weight);
  report.forward_s += phases_.end_of("forward", start);
  return boundary;
}

// Gives the gradient of the boundary's activations, where they have one.
torch::Tensor Hybrid::train_head(const data::Batch& batch, const torch::Tensor& boundary,
                                 const HybridShare& share, const HybridWhole& whole,
                                 double& loss_sum, StepReport& report) {
  const Task& task = context_->task();
  const std::vector<Round> rounds = rounds_of(whole.group);
  const std::size_t me = static_cast<std::size_t>(grid_->partition());
  HeadInput input;
  input.rounds = rounds;
  input.views = batch.views;
  input.activations = boundary.defined()
                          ? boundary.detach().to(wire_).contiguous()
                          : torch::empty({0, network_->head().front().inputs}, wire_);
  HeadStep step;
  step.seed = static_cast<std::uint64_t>(context_->recipe().seed);
  step.step = static_cast<std::uint64_t>(context_->moment().step);
  step.samples = batch.samples.first(share.samples);
  step.gradients = optimizers_->trains_trunk();
  if (options_.variable_batch) {
    for (const double weight : whole.weights) step.factors.push_back(weight / whole.weight);
  }
  step.gradient_of_scores = [&](std::size_t j, const torch::Tensor& scores) {
    // Those that count nothing have no loss: a mean over them would be no number.
    if (share.weights[j] == 0) return torch::zeros_like(scores);
    const TaskBatch rows = task.targets(batch, rounds[j].pieces[me], context_->compute());
    torch::Tensor leaf = scores.detach().requires_grad_(true);
    torch::Tensor loss;
    {
      const Autocast autocast = context_->compute().autocast();
      loss = task.loss({leaf}, rows);
    }
    loss_sum += loss.item<double>() * share.weights[j];
    const double all = options_.variable_batch ? whole.weights[j] : whole.weight;
    (loss * (share.weights[j] / all)).backward();
    return leaf.grad();
  };
  if (options_.variable_batch)
    step.passed = [&](std::size_t j) { update_head_alone(whole.weights[j], report); };
  return head_->train(input, step);
}

// The gradients of replicas, as far as they are complete.
void Hybrid::start_sums_of_head() {
  if (!head_sums_) return;
  given_.assign(optimizers_->head_parameters().size(), false);
  give_gradients_of_head();
}

void Hybrid::give_gradients_of_head() {
  const auto& parameters = optimizers_->head_parameters();
  // In the order in which they are reduced.
  for (std::size_t i = given_.size(); i-- > 0;) {
    if (given_[i] || head_->is_late(parameters[i].tensor)) continue;
    given_[i] = true;
    head_sums_->give_gradient(i);
  }
}

void Hybrid::finish_sums_of_head(StepReport& report) {
  if (given_.empty()) return;
  const auto start = Clock::now();
  head_sums_->finish_step();
  given_.clear();
  head_->keep_gradients_in_place();
  report.communication_s += phases_.end_of("exposed communication", start);
}

// After each pass, with a batch of its own.
void Hybrid::update_head_alone(double weight, StepReport& report) {
  if (weight == 0) return;  // of no group
  start_sums_of_head();
  finish_sums_of_head(report);
  const auto start = Clock::now();
  const double norm = optimizers_->clip_head(norms_, context_->recipe().training.clip_norm);
  // A pass before may have left no number.
  if (std::isfinite(report.gradient_norm) &&
      may_update(report, norm, optimizers_->head_parameters()))
    optimizers_->step_head();
  optimizers_->zero_head();
  report.update_s += phases_.end_of("update", start);
}

// Gradients of the divided weights that nothing else had to wait for.
void Hybrid::finish_head(StepReport& report) {
  const double before = head_->seconds().backward;
  while (head_->finish_some()) give_gradients_of_head();
  report.backward_s += head_->seconds().backward - before;
}

void Hybrid::trunk_backward(const torch::Tensor& boundary, const torch::Tensor& gradient,
                            StepReport& report) {
  if (!trunk_) return;
  const double exposed = trunk_->statistics().exposed_seconds;
  const auto start = Clock::now();
  if (boundary.defined()) {
    boundary.backward(gradient.to(boundary.device(), boundary.scalar_type()));
  } else {
    trunk_->reducer().join_with_zeros();
  }
  const double waited = trunk_->statistics().exposed_seconds - exposed;
  report.communication_s += waited;
  report.backward_s += std::max(0.0, phases_.end_of("backward", start) - waited);
}

// What no pass has updated.
void Hybrid::update_all(StepReport& report) {
  const double most = context_->recipe().training.clip_norm;
  double norm = 0;
  if (options_.variable_batch) {
    // With the last pass's of the divided layers.
    const double divided = report.gradient_norm < 0 ? 0 : report.gradient_norm;
    norm = std::hypot(optimizers_->clip_trunk(norms_, most), divided);
  } else {
    norm = optimizers_->clip(norms_, most);
  }
  if (!may_update(report, norm, optimizers_->parameters())) return;
  optimizers_->step_trunk();
  if (!options_.variable_batch) optimizers_->step_head();
}

StepReport Hybrid::step(const data::Batch& batch) {
  StepReport report;
  report.learning_rate =
      optimizers_->set_learning_rate(context_->schedule().at(context_->moment()));
  seed_generator(*context_);
  optimizers_->zero_grad();
  const double waited = exchange_->waited_seconds();
  const HeadSeconds before = head_->seconds();
  const HybridShare share = share_of(batch);
  torch::Tensor boundary;
  const HybridWhole whole =
      whole_of_all([&] { boundary = trunk_forward(batch, share, report); }, share, report);
  double loss = 0;
  const bool update = whole.weight > 0;
  torch::Tensor gradient;
  if (update) gradient = train_head(batch, boundary, share, whole, loss, report);
  report.forward_s += head_->seconds().forward - before.forward;
  report.backward_s += head_->seconds().backward - before.backward;
  report.communication_s += exchange_->waited_seconds() - waited;
  tally_.start({loss, share.weight, batch.size() < least_share_ ? 0 : batch.size(),
                context_->samples().statistics().skipped + left_out_.samples(),
                context_->requests()});
  if (update && !options_.variable_batch) start_sums_of_head();
  if (head_sums_) finish_head(report);
  if (update) trunk_backward(boundary, gradient, report);
  finish_head(report);
  finish_sums_of_head(report);
  // Under way since before backward; an update is not made where the loss is no number either.
  tally_.finish(report);
  const auto start = Clock::now();
  if (update) update_all(report);
  report.update_s += phases_.end_of("update", start);
  return report;
}

void Hybrid::run() {
  make_updates(
      *context_, tally_, phases_, [this](Timeline* timeline) { follow(timeline); },
      [this](const data::Batch& batch) { return step(batch); });
}

void Hybrid::follow(Timeline* timeline) {
  exchange_->set_timeline(timeline);
  head_->set_timeline(timeline);
  rows_.reset();
  head_rows_.reset();
  if (timeline == nullptr) return;
  if (trunk_) rows_.emplace(*timeline, trunk_->reducer());
  if (head_sums_) head_rows_.emplace(*timeline, *head_sums_, ReducerRows::Of::parts);
}

}  // namespace convoy::train
