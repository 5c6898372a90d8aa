#include "train/samples/random_part.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/random.h"

namespace convoy::train {

RandomPart::RandomPart(std::shared_ptr<const data::Dataset> whole, double fraction,
                       std::uint64_t seed)
    : whole_(std::move(whole)), records_(permutation(whole_->size(), seed, 0)) {
  const double wanted = fraction * static_cast<double>(records_.size());
  const auto count = static_cast<std::size_t>(std::max(std::round(wanted), 1.0));
  records_.resize(std::min(count, records_.size()));
  std::sort(records_.begin(), records_.end());
  fingerprint_ = RandomStream(whole_->fingerprint(), seed, records_.size())();
}

}  // namespace convoy::train
