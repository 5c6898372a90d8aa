#include "train/strategies/tally.h"
#include "train/channels.h"

namespace convoy::train {
namespace {

// Below it, one more update is of no account, and not worth a message.
constexpr double kLongUpdate = 0.1;

}  // namespace

void Tally::start(const Share& share) {
  const double seconds = seconds_since(last_);
  last_ = Clock::now();
  sums_ = {share.loss,
           share.weight,
           static_cast<double>(share.samples),
           static_cast<double>(share.skipped),
           seconds,
           (share.requests & kStop) != 0 ? 1.0 : 0.0,
           (share.requests & kCheckpoint) != 0 ? 1.0 : 0.0};
  sum_ = communicator_.start_allreduce(comm::buffer_of(sums_), comm::ReduceOp::sum,
                                       channels::kStepSums);
}

void Tally::finish(StepReport& report) {
  const auto asked = Clock::now();
  sum_.wait();
  report.communication_s += seconds_since(asked);
  report.samples = static_cast<std::uint64_t>(sums_[kSamples]);
  report.weight = sums_[kWeight];
  report.loss = report.weight > 0 ? sums_[kLoss] / report.weight : 0;
  report.skipped = static_cast<std::uint64_t>(sums_[kSkipped]);
  report.requests =
      (sums_[kStopRequests] > 0 ? kStop : 0u) | (sums_[kCheckpointRequests] > 0 ? kCheckpoint : 0u);
  long_updates_ = sums_[kSeconds] > kLongUpdate * communicator_.size();
}

bool Tally::told_to_stop(std::uint32_t requests) const {
  std::array<double, 1> ranks{(requests & kStop) != 0 ? 1.0 : 0.0};
  communicator_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::sum, channels::kStops);
  return ranks[0] > 0;
}

}  // namespace convoy::train
