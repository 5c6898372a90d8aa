#include "train/check_inference.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::train {

data::Batch empty_share(const Evaluated& what, const data::SampleSource& source) {
  data::TransformOptions transform = evaluation_transform(what.recipe.data);
  data::Batch batch;
  batch.shape = source.shape();
  transform.height = batch.shape.height;
  transform.width = batch.shape.width;
  batch.layout = what.compute.layout();
  batch.pixel = transform.pixel;
  if (!what.task.raw()) batch.views = data::Transformer(transform, batch.shape).views();
  return batch;
}

// Strategies whose ranks work together on a share may have the infer() of those that don't.
void check_inference(const Evaluated& what, const data::SampleSource& source) {
  const bool mine = what.strategy.infer(what.task, what.compute, empty_share(what, source),
                                        [](const TensorList&, const TaskBatch&) {});
  const int shares = what.arrangement.shares;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(shares));  // that answer for each
  ranks[static_cast<std::size_t>(what.arrangement.share)] = mine ? 1 : 0;
  what.all.allreduce(comm::buffer_of(ranks), comm::ReduceOp::sum);
  const auto wrong = std::find_if(ranks.begin(), ranks.end(), [](auto n) { return n != 1; });
  if (wrong == ranks.end()) return;
  throw UsageError("the strategy " + what.recipe.strategy + " cuts a batch into " +
                   std::to_string(shares) + (shares == 1 ? " share" : " shares") + ", and " +
                   std::to_string(*wrong) + " ranks answer for share " +
                   std::to_string(wrong - ranks.begin()) +
                   ": Strategy::infer has to be true on one rank of each share, and the one that "
                   "is there is for ranks with shares of their own");
}

}  // namespace convoy::train
