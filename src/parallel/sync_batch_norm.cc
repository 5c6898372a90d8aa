#include "parallel/sync_batch_norm.h"

#include <ATen/ops/batch_norm_native.h>
#include <torch/library.h>

#include <string>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "parallel/channels.h"
#include "parallel/tensors.h"
#include "parallel/wait.h"

namespace convoy::parallel {
namespace {

thread_local SynchronizedBatchNorm* current = nullptr;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<std::int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

// What is computed with: 16 bits would round the mean before it is subtracted.
at::ScalarType computed_in(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [C] -> [1, C, 1, ...]
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = like.size(1);
  return values.to(like.scalar_type()).view(shape);
}

at::Tensor centered_by(const at::Tensor& mean, const at::Tensor& x) {
  const at::Tensor wide = x.to(computed_in(x));
  return wide - per_channel(mean, wide);
}

// Sums a small double tensor over replicas and ranks, in place, and counts the time. Kept in
// double: sums of squares cancel.
at::Tensor sum_over_all(const SynchronizedBatchNorm& scope, const at::Tensor& values,
                        comm::Match match, double& seconds) {
  at::Tensor host = values.to(at::kCPU).contiguous();
  const auto start = Clock::now();
  if (scope.replicas != nullptr)
    scope.replicas->add(scope.replica, host, match);
  else
    scope.communicator->allreduce(buffer_of(host), comm::ReduceOp::sum, match);
  seconds += seconds_since(start);
  return host.to(values.device());
}

// With n samples on this rank and N on all, mean and variance over all; y = (x - mean) / sqrt(var +
// eps) · w + b. Backward: dx = w/sqrt(var + eps) · (dy - mean(dy) - x̂ · mean(dy·x̂)), the means over
// all ranks. Each rank's dy comes from its own mean loss, and its dx is weighted with its share n_r
// of the samples later on (of what they count, in all micro-batches of the update); so the other
// ranks' sums are brought to this rank's unit by n_q / n_r. Ranks that hold parts of the same
// samples have the same n_r, and their parts count by their elements.
struct NormFunction : torch::autograd::Function<NormFunction> {
  // Optional tensors, since autograd refuses undefined ones as inputs.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight_or_none,
                            const std::optional<at::Tensor>& bias_or_none,
                            const std::optional<at::Tensor>& mean_or_none,
                            const std::optional<at::Tensor>& variance_or_none, double momentum,
                            double eps, std::int64_t scope_address) {
    const at::Tensor weight = weight_or_none.value_or(at::Tensor()),
                     bias = bias_or_none.value_or(at::Tensor());
    const at::Tensor running_mean = mean_or_none.value_or(at::Tensor()),
                     running_var = variance_or_none.value_or(at::Tensor());
    auto& scope = *reinterpret_cast<SynchronizedBatchNorm*>(
        scope_address);  // NOLINT: carried as a number by autograd
    const comm::Match match{channels::kNormForward, scope.next_key++};
    const auto dims = all_but_channels(x);
    const std::int64_t channels = x.size(1);
    const double own_count =
        static_cast<double>(x.numel()) / static_cast<double>(std::max<std::int64_t>(channels, 1));

    // Two rounds, mean first: the variance of large values near each other survives that.
    const auto wide = x.options().dtype(at::kDouble);
    at::Tensor first = at::cat({x.sum(dims, false, at::kDouble), at::full({1}, own_count, wide)});
    first = sum_over_all(scope, first, match, scope.seconds.forward);
    const double count = first[channels].item<double>();
    const at::Tensor mean = first.narrow(0, 0, channels) / count;
    const at::Tensor centered = centered_by(mean, x);
    const at::Tensor square_sum = sum_over_all(
        scope, centered.square().sum(dims, false, at::kDouble), match, scope.seconds.forward);
    const at::Tensor variance = square_sum / count;
    const at::Tensor inverse_std = (variance + eps).rsqrt();

    if (running_mean.defined()) {
      running_mean.mul_(1 - momentum).add_(mean.to(running_mean.scalar_type()), momentum);
      const at::Tensor unbiased = square_sum / std::max(count - 1, 1.0);
      running_var.mul_(1 - momentum).add_(unbiased.to(running_var.scalar_type()), momentum);
    }
    context->save_for_backward({x, weight, bias, mean, inverse_std});
    context->saved_data["scope"] = scope_address;
    context->saved_data["key"] = static_cast<std::int64_t>(match.key);
    context->saved_data["count"] = count;
    context->saved_data["share"] = scope.weight_by_samples ? scope.share : 1.0;
    at::Tensor y = centered * per_channel(inverse_std, centered);
    if (weight.defined()) y = y * per_channel(weight, y);
    if (bias.defined()) y = y + per_channel(bias, y);
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list outputs) {
    // Autograd would take the sums over ranks for constants.
    if (at::GradMode::is_enabled()) {
      throw UsageError(
          "synchronized batch normalization can't be differentiated twice; take local statistics, "
          "or "
          "evaluation mode, for a loss with a gradient in it");
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &inverse_std = saved[4];
    at::Tensor normalized = centered_by(saved[3], x);
    normalized.mul_(per_channel(inverse_std, normalized));
    auto& scope =
        *reinterpret_cast<SynchronizedBatchNorm*>(context->saved_data["scope"].toInt());  // NOLINT
    const comm::Match match{channels::kNormBackward,
                            static_cast<std::uint16_t>(context->saved_data["key"].toInt())};
    const double count = context->saved_data["count"].toDouble();
    const double share = context->saved_data["share"].toDouble();
    // The mean loss of nothing may be no number: what counts 0 is left out, and not multiplied by
    // 0.
    const at::Tensor dy =
        share == 0 ? at::zeros_like(normalized) : outputs[0].to(normalized.scalar_type());
    const auto dims = all_but_channels(dy);
    const std::int64_t channels = dy.size(1);

    const at::Tensor dy_sum = dy.sum(dims, false, at::kDouble);
    const at::Tensor dy_x_sum = (dy * normalized).sum(dims, false, at::kDouble);
    const at::Tensor sums =
        sum_over_all(scope, at::cat({dy_sum, dy_x_sum}) * share, match, scope.seconds.backward) /
        ((share == 0 ? 1 : share) * count);
    at::Tensor scale = inverse_std;
    if (weight.defined()) scale = scale * weight.to(at::kDouble);
    const at::Tensor dx = (dy - per_channel(sums.narrow(0, 0, channels), dy) -
                           normalized * per_channel(sums.narrow(0, channels, channels), dy)) *
                          per_channel(scale, dy);
    // The parameters' gradients stay local: the reducer averages them with all others.
    at::Tensor dweight, dbias;
    if (weight.defined()) dweight = dy_x_sum.to(weight.scalar_type());
    if (bias.defined()) dbias = dy_sum.to(bias.scalar_type());
    return {dx.to(x.scalar_type()), dweight, dbias, {}, {}, {}, {}, {}};
  }
};

at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias,
                      const std::optional<at::Tensor>& running_mean,
                      const std::optional<at::Tensor>& running_var, bool training, double momentum,
                      double eps, bool cudnn_enabled) {
  if (current == nullptr || !training) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, eps, cudnn_enabled);
  }
  return NormFunction::apply(input, weight, bias, running_mean, running_var, momentum, eps,
                             reinterpret_cast<std::int64_t>(current));
}

}  // namespace

StatisticsSum::StatisticsSum(comm::Communicator communicator, std::size_t replicas)
    : communicator_(std::move(communicator)),
      replicas_(replicas),
      values_(replicas, nullptr),
      missing_(replicas) {}

// Who comes last adds up.
void StatisticsSum::add(std::size_t replica, at::Tensor& values, comm::Match match) {
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  values_.at(replica) = &values;
  if (--missing_ == 0) {
    try {
      reduce(match);
    } catch (...) {
      error_ = std::current_exception();
    }
    values_.assign(replicas_, nullptr);
    missing_ = replicas_;
    ++sums_;
    changed_.notify_all();
  } else {
    const auto over = [this, mine = sums_] { return sums_ != mine || error_; };
    if (!wait_up_to(changed_, lock, communicator_.timeout(), over) && !error_) {
      error_ = std::make_exception_ptr(Failure(
          "rank " + std::to_string(communicator_.rank()) + ": replica " + std::to_string(replica) +
          " has waited for the others in a synchronized batch normalization until the "
          "timeout"));
      changed_.notify_all();
    }
  }
  if (error_) std::rethrow_exception(error_);
}

void StatisticsSum::reduce(comm::Match match) {
  at::Tensor& sum = *values_.front();
  if (communicator_.reproducible()) {
    std::vector<comm::Buffer> buffers;
    for (const at::Tensor* own : values_) buffers.push_back(buffer_of(*own));
    communicator_.allreduce_of_several(buffers, comm::ReduceOp::sum, match);
  } else {
    for (std::size_t i = 1; i < replicas_; ++i) sum.add_(*values_[i]);
    communicator_.allreduce(buffer_of(sum), comm::ReduceOp::sum, match);
  }
  for (std::size_t i = 1; i < replicas_; ++i) values_[i]->copy_(sum);
}

void StatisticsSum::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!error_)
    error_ = std::make_exception_ptr(
        OtherSourceEnded("rank " + std::to_string(communicator_.rank()) + ": " + why));
  changed_.notify_all();
}

SynchronizedBatchNorm* exchange_synchronized_batch_norm(SynchronizedBatchNorm* scope) {
  return std::exchange(current, scope);
}

// aten::batch_norm is a composite, which leaves these keys free (the alias key Autograd would lose
// against the composite). Outside a scope the kernel does what the composite does.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("batch_norm", batch_norm); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) { library.impl("batch_norm", batch_norm); }

}  // namespace convoy::parallel
