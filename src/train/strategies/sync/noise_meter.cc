#include "train/strategies/sync/noise_meter.h"

#include "convoy/parallel/clip.h"
#include "train/channels.h"

namespace convoy::train {

NoiseMeter::NoiseMeter(const comm::Communicator& communicator,
                       const std::vector<parallel::NamedTensor>& parameters, std::int64_t every)
    : communicator_(communicator), every_(every) {
  for (const parallel::NamedTensor& parameter : parameters) parameters_.push_back(parameter.tensor);
}

void NoiseMeter::begin(std::int64_t updates) {
  on_ = every_ > 0 && (updates + 1) % every_ == 0;
  sums_ = {};
}

void NoiseMeter::first_part(double weight, double total) {
  if (!on_) return;
  const double scale = total / weight;
  sums_ = {scale * scale * parallel::gradient_square(parameters_), 1 / weight, 1};
}

void NoiseMeter::whole_batch() {
  if (on_) batch_square_ = parallel::gradient_square(parameters_);
}

std::optional<GradientNoise> NoiseMeter::finish(double weight) {
  if (!on_ || !(weight > 0)) return std::nullopt;
  communicator_.allreduce(comm::buffer_of(sums_), comm::ReduceOp::sum, channels::kNoise);
  const double ranks = sums_[kRanks];
  if (ranks == 0) return std::nullopt;
  return GradientNoise{.part = ranks / sums_[kInverses],
                       .batch = weight,
                       .part_square = sums_[kSquares] / ranks,
                       .batch_square = batch_square_};
}

}  // namespace convoy::train
