#include "convoy/parallel/distributed_model.h"

#include "convoy/base/error.h"
#include "parallel/same_options.h"
#include "parallel/sync_batch_norm.h"

namespace convoy::parallel {

struct DistributedCore::Impl {
  std::shared_ptr<torch::nn::Module> module;
  DistributedOptions options;
  comm::Communicator statistics;  // of synchronized batch normalization
  SynchronizedBatchNorm batch_norm;
  std::unique_ptr<GradientReducer> reducer;
};

DistributedCore::DistributedCore(const comm::Communicator& all,
                                 std::shared_ptr<torch::nn::Module> module,
                                 DistributedOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (!module) throw UsageError("DistributedModel needs a module, not a null pointer");
  check_same_options(
      all, options,
      {{"batch_norm",
        options.batch_norm == BatchNormStatistics::synchronized ? "synchronized" : "local"}});
  Impl& d = *impl_;
  d.module = std::move(module);
  d.options = options;
  const auto parameters = unique_parameters(*d.module);
  auto state = parameters;
  for (auto& buffer : unique_buffers(*d.module)) state.push_back(std::move(buffer));
  check_same_on_all_ranks(all, state);
  broadcast_tensors(all, state);
  d.statistics = options.reproducible ? all.with_reproducible(true) : all.duplicate();
  d.batch_norm.communicator = &d.statistics;
  d.batch_norm.weight_by_samples = options.averaging == Averaging::samples;
  d.reducer = std::make_unique<GradientReducer>(
      all, std::vector<std::vector<NamedTensor>>{parameters}, options);
}

DistributedCore::~DistributedCore() = default;

GradientReducer& DistributedCore::reducer() { return *impl_->reducer; }

void DistributedCore::broadcast_buffers(int root) {
  broadcast_tensors(impl_->statistics, unique_buffers(*impl_->module), root);
}

void DistributedCore::finish_epoch(const std::function<void()>& on_step) {
  impl_->reducer->drain(on_step);
}

double DistributedCore::clip_grad_norm(double max_norm, double norm_type) {
  std::vector<at::Tensor> parameters;
  for (const auto& p : unique_parameters(*impl_->module)) parameters.push_back(p.tensor);
  return torch::nn::utils::clip_grad_norm_(parameters, max_norm, norm_type);
}

const NormalizationSeconds& DistributedCore::normalization_seconds() const {
  return impl_->batch_norm.seconds;
}

ForwardScope::ForwardScope(DistributedCore& core, bool training, std::optional<double> samples,
                           std::optional<double> total) {
  auto& d = *core.impl_;
  if (training) d.reducer->check_parameters();
  if (training && samples) d.reducer->count_samples(*samples);
  const bool synchronize = training && d.options.batch_norm == BatchNormStatistics::synchronized &&
                           d.statistics.size() > 1;
  if (synchronize) {
    d.batch_norm.next_key = 0;
    d.batch_norm.share = total.value_or(1);
  }
  previous_ = exchange_synchronized_batch_norm(synchronize ? &d.batch_norm : nullptr);
}

ForwardScope::~ForwardScope() {
  exchange_synchronized_batch_norm(static_cast<SynchronizedBatchNorm*>(previous_));
}

}  // namespace convoy::parallel
