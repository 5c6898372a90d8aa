#include "train/strategies/sandblaster/portions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace convoy::train {

PortionSource::PortionSource(data::SampleSource& loader, std::shared_ptr<data::Portions> portions,
                             std::uint64_t batch, std::uint64_t portion)
    : loader_(loader), portions_(std::move(portions)), batch_(batch), portion_(portion) {}

data::Range PortionSource::positions(std::uint32_t portion) const {
  const std::uint64_t begin = std::min<std::uint64_t>(portion * portion_, loader_.size());
  return {begin, std::min<std::uint64_t>(begin + portion_, loader_.size())};
}

// Batch by batch: what the loader takes for one may be larger.
void PortionSource::queue(std::uint32_t portion) {
  const data::Range all = positions(portion);
  for (std::uint64_t at = all.begin; at < all.end; at += batch_)
    portions_->add({kPinnedEpoch, {at, std::min<std::uint64_t>(at + batch_, all.end)}});
}

void PortionSource::ahead(const server::PortionGroup& group) {
  for (std::uint64_t portion = group.first; portion < group.end(); ++portion) {
    queue(static_cast<std::uint32_t>(portion));
    queued_.push_back(static_cast<std::uint32_t>(portion));
  }
}

void PortionSource::begin(std::uint32_t portion) {
  if (!unfinished_ && !queued_.empty() && queued_.front() == portion) {
    queued_.pop_front();
  } else {
    portions_->clear();
    loader_.seek({});  // nothing of what was prepared
    portions_->clear();
    queued_.clear();
    queue(portion);
  }
  const data::Range all = positions(portion);
  at_ = all.begin;
  end_ = all.end;
  unfinished_ = true;
}

const data::Batch* PortionSource::next() {
  at_ = std::min(at_ + batch_, end_);
  unfinished_ = at_ < end_;
  return loader_.next();
}

void PortionContext::set(PortionSource& source, Report report) {
  source_ = &source;
  report_ = std::move(report);
  moment_.samples = source.size();
}

NamedOptimizer PortionContext::make_optimizer(std::vector<parallel::NamedTensor> parameters) const {
  std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
  parameters_ = parameters;
  return make_telling_optimizer(recipe().optimizer, std::move(parameters),
                                std::make_shared<RuleStates>(), {});
}

template <typename T>
PortionPass<T>::PortionPass(Strategy& strategy, PortionContext& context, const Vectors& vectors,
                            PortionSource& source)
    : strategy_(strategy),
      vectors_(vectors),
      source_(source),
      one_function_(strategy.module()),
      weights_(vectors, false) {
  context.set(source, [this](const StepReport& report) { return took(report); });
}

// The strategy's gradient is that of the mean loss over what the mini-batch counts.
template <typename T>
bool PortionPass<T>::took(const StepReport& report) {
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  loss_ += finite ? report.loss * report.weight : std::numeric_limits<double>::quiet_NaN();
  if (finite && report.weight > 0) add_gradients(vectors_, report.weight, gradient_);
  return !source_.ends();
}

template <typename T>
double PortionPass<T>::compute(std::uint32_t portion, std::span<T> gradient) {
  gradient_ = gradient;
  loss_ = 0;
  source_.begin(portion);
  strategy_.run();
  if (!looked_) one_function_.check();
  looked_ = true;
  return loss_;
}

template class PortionPass<float>;
template class PortionPass<double>;

}  // namespace convoy::train
