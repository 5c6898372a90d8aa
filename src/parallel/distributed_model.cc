#include "convoy/parallel/distributed_model.h"

#include <deque>

#include "convoy/base/error.h"
#include "parallel/same_options.h"
#include "parallel/sync_batch_norm.h"

namespace convoy::parallel {
namespace {

std::vector<NamedTensor> parameters_and_buffers(const torch::nn::Module& module) {
  std::vector<NamedTensor> all = unique_parameters(module);
  for (NamedTensor& buffer : unique_buffers(module)) all.push_back(std::move(buffer));
  return all;
}

// Gives replica number `replica` of this process what the first one has.
void take_over(const std::vector<NamedTensor>& first, const std::vector<NamedTensor>& own,
               std::size_t replica) {
  const torch::NoGradGuard no_grad;
  bool same = own.size() == first.size();
  for (std::size_t i = 0; same && i < own.size(); ++i) {
    const at::Tensor &mine = own[i].tensor, &theirs = first[i].tensor;
    same = own[i].name == first[i].name && mine.sizes() == theirs.sizes() &&
           mine.scalar_type() == theirs.scalar_type() &&
           mine.requires_grad() == theirs.requires_grad();
  }
  if (!same) {
    throw UsageError("replica " + std::to_string(replica) +
                     " of this process is another model than the first: their parameters and "
                     "buffers have to be the same");
  }
  for (std::size_t i = 0; i < own.size(); ++i) own[i].tensor.copy_(first[i].tensor);
}

}  // namespace

struct DistributedCore::Impl {
  std::vector<std::shared_ptr<torch::nn::Module>> replicas;
  DistributedOptions options;
  // Of synchronized batch normalization.
  comm::Communicator statistics;
  std::unique_ptr<StatisticsSum> sum;             // of several replicas
  std::deque<SynchronizedBatchNorm> batch_norms;  // by replica; backward knows their addresses
  std::unique_ptr<GradientReducer> reducer;
};

DistributedCore::DistributedCore(const comm::Communicator& all,
                                 std::shared_ptr<torch::nn::Module> module,
                                 DistributedOptions options)
    : DistributedCore(all, std::vector<std::shared_ptr<torch::nn::Module>>{std::move(module)},
                      std::move(options)) {}

DistributedCore::DistributedCore(const comm::Communicator& all,
                                 std::vector<std::shared_ptr<torch::nn::Module>> replicas,
                                 DistributedOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (replicas.empty()) throw UsageError("DistributedModel needs a module, not an empty list");
  for (const auto& module : replicas) {
    if (!module) throw UsageError("DistributedModel needs a module, not a null pointer");
  }
  check_same_options(
      all, options,
      {{"batch_norm",
        options.batch_norm == BatchNormStatistics::synchronized ? "synchronized" : "local"},
       {"replicas", std::to_string(replicas.size())}});
  Impl& d = *impl_;
  d.replicas = std::move(replicas);
  d.options = options;
  const std::vector<NamedTensor> first = parameters_and_buffers(*d.replicas.front());
  check_same_on_all_ranks(all, first);
  broadcast_tensors(all, first);
  std::vector<std::vector<NamedTensor>> sources;
  for (std::size_t replica = 0; replica < d.replicas.size(); ++replica) {
    const torch::nn::Module& module = *d.replicas[replica];
    if (replica > 0) take_over(first, parameters_and_buffers(module), replica);
    sources.push_back(unique_parameters(module));
  }
  d.statistics = options.reproducible ? all.with_reproducible(true) : all.duplicate();
  if (d.replicas.size() > 1)
    d.sum = std::make_unique<StatisticsSum>(d.statistics, d.replicas.size());
  for (std::size_t replica = 0; replica < d.replicas.size(); ++replica) {
    SynchronizedBatchNorm& norm = d.batch_norms.emplace_back();
    norm.communicator = &d.statistics;
    norm.weight_by_samples = options.averaging == Averaging::samples;
    norm.replicas = d.sum.get();
    norm.replica = replica;
  }
  d.reducer = std::make_unique<GradientReducer>(all, std::move(sources), options);
}

DistributedCore::~DistributedCore() = default;

void DistributedCore::fail(const std::string& why) {
  if (impl_->sum) impl_->sum->fail(why);
  impl_->reducer->fail(why);
}

GradientReducer& DistributedCore::reducer() { return *impl_->reducer; }

void DistributedCore::broadcast_buffers(int root) {
  const std::vector<NamedTensor> first = unique_buffers(*impl_->replicas.front());
  broadcast_tensors(impl_->statistics, first, root);
  for (std::size_t replica = 1; replica < impl_->replicas.size(); ++replica)
    take_over(first, unique_buffers(*impl_->replicas[replica]), replica);
}

void DistributedCore::finish_epoch(const std::function<void()>& on_step) {
  impl_->reducer->drain(on_step);
}

double DistributedCore::clip_grad_norm(double max_norm, double norm_type) {
  std::vector<at::Tensor> parameters;
  for (const auto& p : unique_parameters(*impl_->replicas.front())) parameters.push_back(p.tensor);
  return torch::nn::utils::clip_grad_norm_(parameters, max_norm, norm_type);
}

const NormalizationSeconds& DistributedCore::normalization_seconds() const {
  return impl_->batch_norms.front().seconds;
}

ForwardScope::ForwardScope(DistributedCore& core, bool training, std::optional<double> samples,
                           std::optional<double> total) {
  GradientReducer& reducer = *core.impl_->reducer;
  if (training) reducer.check_parameters();
  if (training && samples) reducer.count_samples(*samples);
  if (training) {
    synchronize(core, 0, total.value_or(1));
  } else {
    previous_ = exchange_synchronized_batch_norm(nullptr);
  }
}

ForwardScope::ForwardScope(DistributedCore& core, std::size_t replica, double total) {
  synchronize(core, replica, total);
}

void ForwardScope::synchronize(DistributedCore& core, std::size_t replica, double total) {
  auto& d = *core.impl_;
  SynchronizedBatchNorm* norm = nullptr;
  const bool alone = d.replicas.size() == 1 && d.statistics.size() == 1;
  if (d.options.batch_norm == BatchNormStatistics::synchronized && !alone) {
    norm = &d.batch_norms.at(replica);
    norm->next_key = 0;
    norm->share = total;
  }
  previous_ = exchange_synchronized_batch_norm(norm);
}

ForwardScope::~ForwardScope() {
  exchange_synchronized_batch_norm(static_cast<SynchronizedBatchNorm*>(previous_));
}

}  // namespace convoy::parallel
