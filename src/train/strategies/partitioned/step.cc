#include <algorithm>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/clip.h"
#include "convoy/train/training_loss.h"
#include "parallel/tensors.h"
#include "train/channels.h"
#include "train/strategies/partitioned/strategy.h"
#include "train/strategies/updates.h"

namespace convoy::train {

// What each rank has is told to all.
Partitioned::Shares Partitioned::shares_of(const std::optional<TaskBatch>& rows,
                                           StepReport& report) {
  struct Told {
    std::int64_t rows = 0;
    double weight = 0;
    std::int64_t one_by_one = 0;  // 1: rows count differently
  };
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  Told own;
  if (rows) {
    own.rows = inputs_of(context_->task(), rows).front().size(0);
    own.weight = rows->weight;
    own.one_by_one = std::adjacent_find(own_weights_.begin(), own_weights_.end(),
                                        std::not_equal_to<>()) == own_weights_.end()
                         ? 0
                         : 1;
  }
  Shares shares;
  shares.own_weight = own.weight;
  const auto start = Clock::now();
  const std::vector<Told> told = communicator_.gather(own, channels::kShares);
  report.communication_s += phases_.end_of("exposed communication", start);
  const auto partitions = static_cast<std::size_t>(grid_->shape().partitions);
  const auto rows_of = [&](std::size_t replica) {
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < partitions; ++p) sum += told[replica * partitions + p].rows;
    return sum;
  };
  if (replicas_together()) {
    std::vector<std::int64_t> of_replicas;
    for (std::size_t r = 0; r < ranks / partitions; ++r) of_replicas.push_back(rows_of(r));
    check_all_count(of_replicas);
  }
  // Replicas with too few rows take no part.
  for (std::size_t r = 0; r < ranks; ++r) {
    if (rows_of(r / partitions) >= least_rows_) shares.weight += told[r].weight;
  }
  const std::size_t first = static_cast<std::size_t>(grid_->replica()) * partitions;
  const bool enough = rows_of(first / partitions) >= least_rows_;
  for (std::size_t p = 0; p < partitions; ++p) {
    shares.rows.of.push_back(enough ? told[first + p].rows : 0);
    shares.weights.push_back(told[first + p].weight);
    shares.one_by_one = shares.one_by_one || told[first + p].one_by_one > 0;
  }
  if (!enough) shares.own_weight = 0;
  shares.too_few = !enough && rows.has_value();
  return shares;
}

// One that takes no part would keep the others waiting in their batch normalization.
void Partitioned::check_all_count(const std::vector<std::int64_t>& rows) const {
  const auto few = [this](std::int64_t count) { return count < least_rows_; };
  const auto first = std::find_if(rows.begin(), rows.end(), few);
  if (first == rows.end() || std::all_of(rows.begin(), rows.end(), few)) return;
  const std::string replica = "replica " + std::to_string(first - rows.begin());
  const std::string local = "set partitioned.batch_norm = \"local\"";
  if (*first > 0) {
    throw UsageError(
        "partitioned.batch_norm is synchronized, so every replica takes part in every step; " +
        replica + " has " + std::to_string(*first) + (*first == 1 ? " row" : " rows") +
        " in this one, and the network can't be trained on fewer than " +
        std::to_string(least_rows_) + ": let training.batch be larger, or " + local);
  }
  throw UsageError(
      "partitioned.batch_norm is synchronized, so every replica takes part in every step; the "
      "task " +
      context_->recipe().task.name + " says that no sample of " + replica +
      " counts anything in this one: " + local);
}

// Of all samples of this replica, what each row counts.
std::vector<double> Partitioned::row_weights(const std::optional<TaskBatch>& rows,
                                             const Shares& shares) {
  std::vector<double> all;
  for (std::size_t q = 0; q < shares.rows.of.size(); ++q) {
    const std::int64_t count = shares.rows.of[q];
    const double each = count > 0 ? shares.weights[q] / static_cast<double>(count) : 0;
    all.insert(all.end(), static_cast<std::size_t>(count), each);
  }
  if (!shares.one_by_one) return all;
  std::fill(all.begin(), all.end(), 0);
  if (rows) {
    // Rows of a sample lie one after the other; as many of each.
    const auto own =
        static_cast<std::size_t>(shares.rows.of[static_cast<std::size_t>(links_->rank())]);
    const std::size_t each = own / own_weights_.size();
    auto next = all.begin() + shares.rows.before(links_->rank());
    for (const double weight : own_weights_)
      next = std::fill_n(next, each, weight / static_cast<double>(each));
  }
  links_->group().allreduce(comm::buffer_of(all), comm::ReduceOp::sum, channels::kRowWeights);
  return all;
}

// Of all samples of this replica.
std::vector<std::size_t> Partitioned::sample_numbers(const std::optional<TaskBatch>& own) {
  if (!network_->drops_units()) return {};
  // Rows of a sample lie one after the other; as many of each.
  const std::vector<std::int64_t> counts =
      links_->group().gather(own ? static_cast<std::int64_t>(own->samples.size()) : std::int64_t{0},
                             channels::kSampleCounts);
  std::int64_t all = 0, before = 0;
  for (int q = 0; q < links_->size(); ++q) {
    if (q < links_->rank()) before += counts[static_cast<std::size_t>(q)];
    all += counts[static_cast<std::size_t>(q)];
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(all), 0);
  if (own) std::copy(own->samples.begin(), own->samples.end(), numbers.begin() + before);
  links_->group().allreduce(comm::buffer_of(numbers), comm::ReduceOp::sum,
                            channels::kSampleNumbers);
  const auto bytes = [](std::int64_t n) { return static_cast<std::uint64_t>(n) * 8; };
  const std::int64_t mine = counts[static_cast<std::size_t>(links_->rank())];
  links_->count(Links::Kind::numbers, bytes(mine * (links_->size() - 1)), bytes(all - mine));
  return {numbers.begin(), numbers.end()};
}

Partitioned::Loss Partitioned::loss_of_samples(PartitionedPass& pass,
                                               const std::optional<TaskBatch>& rows,
                                               const Shares& shares) {
  const Task& task = context_->task();
  const TensorList outputs = network_->run(pass, inputs_of(task, rows));
  if (!(shares.own_weight > 0)) return {torch::zeros({}, outputs.front().options()), 0};
  const torch::Tensor loss = training_loss(task, network_->blueprint().auxiliary, outputs, *rows);
  return {loss * (shares.own_weight / shares.weight), loss.item<double>() * shares.own_weight};
}

OutputPart Partitioned::output_part() {
  const model::PartitionPlan& plan = network_->plan();
  const Slice& tile =
      plan.values[plan.outputs.front()].tiles[static_cast<std::size_t>(grid_->partition())];
  const auto reduce = [this](const torch::Tensor& own, comm::ReduceOp operation) {
    torch::Tensor host = own.detach().to(torch::kCPU).contiguous().clone();
    const auto start = Clock::now();
    comm::Operation sum = links_->group().start_allreduce(parallel::buffer_of(host), operation,
                                                          channels::kDividedLoss);
    links_->count(Links::Kind::loss, host.nbytes() * 2, host.nbytes() * 2);
    links_->wait(sum, Links::Kind::loss, "loss", start);
    return host.to(own.device());
  };
  return {tile.begin.front(), tile.size.front(), tile.shape.front(), reduce};
}

// No rank ever has all scores of a sample.
Partitioned::Loss Partitioned::loss_of_part(PartitionedPass& pass,
                                            const std::optional<TaskBatch>& rows,
                                            const Shares& shares) {
  const Task& task = context_->task();
  const torch::Tensor own = rows ? task.divided_targets(*rows) : blank_targets_;
  // Targets go to those who have outputs for them.
  const model::PartitionPlan& plan = network_->plan();
  const model::PartitionedValue& output = plan.values[plan.outputs.front()];
  model::PartitionedValue value;
  value.name = "targets";
  value.shape = own.sizes().slice(1).vec();
  for (const Slice& tile : output.tiles) {
    value.needed.push_back(whole_of(value.name, value.shape));
    if (value.shape != output.shape) continue;
    value.needed.back().begin = tile.begin;
    value.needed.back().size = tile.size;
  }
  constexpr std::uint16_t kKey = 65535;  // beyond those of layers
  Fetch fetch(
      *links_, route_of_input(value, shares.rows, links_->rank()),
      {.forward = Links::Kind::inputs, .key = kKey, .name = value.name, .wire = own.scalar_type()});
  fetch.start(own);
  const torch::Tensor scores = network_->run_parts(pass, inputs_of(task, rows)).front();
  const torch::Tensor targets = fetch.finish_all();
  std::vector<double> factors = row_weights(rows, shares);
  for (double& factor : factors) factor /= shares.weight;
  const PartLoss loss =
      task.divided_loss(scores, targets, torch::tensor(factors, torch::kDouble), output_part());
  return {(scores * loss.gradient).sum(), loss.value * shares.weight};
}

// Gives this rank's part of the loss of all samples, times their weight.
double Partitioned::forward_and_backward(const std::optional<TaskBatch>& rows, const Shares& shares,
                                         bool divided_loss, StepReport& report) {
  auto start = Clock::now();
  const std::vector<std::size_t> numbers = sample_numbers(rows);
  if (!numbers.empty()) report.communication_s += phases_.end_of("exposed communication", start);
  start = Clock::now();
  const auto pass = new_pass(shares.rows);
  pass->seed = seed_;
  const bool images_shared = image_statistics_.size() > 1;
  const bool units_shared = synchronized_ && unit_statistics_.size() > 1;
  image_norm_.next_key = unit_norm_.next_key = 0;
  image_norm_.communicator = &image_statistics_;
  unit_norm_.communicator = &unit_statistics_;
  // Each rank's loss is its part of the mean over all.
  image_norm_.weight_by_samples = unit_norm_.weight_by_samples = false;
  pass->statistics = {images_shared ? &image_norm_ : nullptr, units_shared ? &unit_norm_ : nullptr};
  const double norm_before = image_norm_.seconds.forward + unit_norm_.seconds.forward;
  const double norm_back = image_norm_.seconds.backward + unit_norm_.seconds.backward;
  const double waited = links_->waited_forward(), waited_back = links_->waited_backward();
  Loss loss;
  {
    const model::RandomScope scope(static_cast<std::uint64_t>(context_->recipe().seed),
                                   static_cast<std::uint64_t>(context_->moment().step), numbers);
    const Autocast autocast = compute_->autocast();
    loss = divided_loss ? loss_of_part(*pass, rows, shares) : loss_of_samples(*pass, rows, shares);
    loss.root = end_of_pass(loss.root, pass->tokens(), network_->idle());
  }
  const double hidden_forward = links_->waited_forward() - waited + image_norm_.seconds.forward +
                                unit_norm_.seconds.forward - norm_before;
  report.communication_s += hidden_forward;
  report.forward_s += std::max(0.0, phases_.end_of("forward", start) - hidden_forward);
  start = Clock::now();
  const auto exposed = [this] {
    return (shared_sums_ ? shared_sums_->statistics().exposed_seconds : 0) +
           (divided_sums_ ? divided_sums_->statistics().exposed_seconds : 0);
  };
  const double exposed_before = exposed();
  if (loss.root.requires_grad()) loss.root.backward();
  pass->check_backward();
  const double back = links_->waited_backward() - waited_back + image_norm_.seconds.backward +
                      unit_norm_.seconds.backward - norm_back + exposed() - exposed_before;
  report.communication_s += back;
  report.backward_s += std::max(0.0, phases_.end_of("backward", start) - back);
  return loss.weighted;
}

void Partitioned::join_with_zeros() {
  if (shared_sums_) shared_sums_->join_with_zeros();
  if (divided_sums_) divided_sums_->join_with_zeros();
}

void Partitioned::update(StepReport& report) {
  const double norm = parallel::clip_grad_norm(norms_, tensors_of(divided_), tensors_of(shared_),
                                               context_->recipe().training.clip_norm);
  tally_.finish(report);  // whose sum has travelled beside that of the norm
  if (may_update(report, norm, parameters_)) optimizer_->step();
}

StepReport Partitioned::step(const data::Batch& batch) {
  StepReport report;
  report.learning_rate = context_->schedule().at(context_->moment());
  optimizer_->set_learning_rate(report.learning_rate);
  // For what draws from LibTorch's generator: alike on the partitions of a replica, which may all
  // compute the same.
  seed_ = RandomStream(static_cast<std::uint64_t>(context_->recipe().seed),
                       static_cast<std::uint64_t>(context_->moment().step),
                       static_cast<std::uint64_t>(grid_->replica()))();
  torch::manual_seed(seed_);
  optimizer_->zero_grad();
  std::optional<TaskBatch> rows;
  // Rows that count nothing reach no network.
  own_weights_.clear();
  const bool divided_loss = blank_targets_.defined() && batch.views == 1;
  if (batch.size() > 0 && weight_of(*context_, batch, {0, batch.size()}) > 0) {
    rows = context_->task().tensors(batch, {0, batch.size()}, *compute_);
    for (std::size_t i = 0; divided_loss && i < batch.size(); ++i)
      own_weights_.push_back(weight_of(*context_, batch, {i, i + 1}));
  }
  const Shares shares = shares_of(rows, report);
  const bool takes_part = shares.rows.all() > 0;
  if (shares.too_few) left_out_.add(*context_, batch);
  const bool update = shares.weight > 0;
  double loss = 0;
  if (update && takes_part) {
    loss = forward_and_backward(rows, shares, divided_loss, report);
  } else if (update) {
    const auto joined = Clock::now();
    join_with_zeros();
    report.communication_s += phases_.end_of("exposed communication", joined);
  }
  tally_.start({loss, shares.own_weight, shares.too_few ? 0 : batch.size(),
                context_->samples().statistics().skipped + left_out_.samples(),
                context_->requests()});
  const auto start = Clock::now();
  const double communicated = report.communication_s;
  if (update) this->update(report);
  const double waited = report.communication_s - communicated;
  report.update_s += std::max(0.0, phases_.end_of("update", start) - waited);
  if (!update) tally_.finish(report);
  return report;
}

void Partitioned::run() {
  make_updates(
      *context_, tally_, phases_, [this](Timeline* timeline) { follow(timeline); },
      [this](const data::Batch& batch) { return step(batch); });
}

void Partitioned::follow(Timeline* timeline) {
  links_->set_timeline(timeline);
  shared_rows_.reset();
  divided_rows_.reset();
  if (timeline == nullptr) return;
  if (shared_sums_) shared_rows_.emplace(*timeline, *shared_sums_);
  if (divided_sums_) divided_rows_.emplace(*timeline, *divided_sums_, ReducerRows::Of::parts);
}

}  // namespace convoy::train
