#include "train/strategies/shares.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::train {

namespace {

// The sizes of the batches that come up: whole ones, the last of an epoch, and the last of this
// one.
std::vector<std::size_t> batch_sizes(const TrainerContext& context) {
  const auto batch = static_cast<std::size_t>(context.recipe().training.batch);
  const Moment& now = context.moment();
  std::vector<std::size_t> sizes{std::min(batch, now.samples)};
  if (context.recipe().data.drop_last) return sizes;
  for (const std::size_t left : {now.samples % batch, (now.samples - now.consumed) % batch}) {
    if (left > 0) sizes.push_back(left);
  }
  return sizes;
}

}  // namespace

Sharers all_ranks(const TrainerContext& context) {
  return {.count = static_cast<std::size_t>(context.world().size())};
}

void check_synchronized_shares(const TrainerContext& context, const Sharers& sharers) {
  const Recipe& recipe = context.recipe();
  const std::string key = recipe.strategy + ".batch_norm", name = sharers.name;
  const std::size_t parts = sharers.count * static_cast<std::size_t>(recipe.training.accumulate);
  if (sharers.count == 1) return;
  if (context.task().raw()) {
    throw UsageError(key + " is synchronized, so every " + name +
                     " needs a sample in every micro-batch; with the task '" + recipe.task.name +
                     "', whose batches aren't counted in samples, nobody can promise that: set " +
                     key + " = \"local\"");
  }
  const std::vector<std::size_t> sizes = batch_sizes(context);
  if (*std::min_element(sizes.begin(), sizes.end()) >= parts && recipe.data.on_bad == "fail")
    return;
  throw UsageError(key + " is synchronized, so every " + name +
                   " needs a sample in every micro-batch: let training.batch be at least " + name +
                   "s x accumulate, set data.drop_last = true, and data.on_bad = \"fail\"");
}

void check_least_share(const TrainerContext& context, std::size_t least, const Sharers& sharers) {
  if (least == 1) return;
  const Recipe& recipe = context.recipe();
  // Files are for any rank. In memory, a sample is where it is: each rank has its even share.
  const bool files = recipe.data.store == "files";
  const std::size_t enough = files && sharers.fewer_may_share ? least : least * sharers.count;
  for (const std::size_t size : batch_sizes(context)) {
    if (size >= enough) continue;
    const bool files_help = !files && size > 1 && sharers.fewer_may_share;
    throw UsageError(
        "a batch of " + std::to_string(size) + (size == 1 ? " sample" : " samples") +
        " comes up (" + std::to_string(context.moment().samples) + " in batches of " +
        std::to_string(recipe.training.batch) + "), which leaves a " + sharers.name +
        " with one alone, and the model '" + recipe.model.name +
        "' can't be trained on one alone (batch normalization has nothing to compare it with): set "
        "data.drop_last = true, or another training.batch" +
        (files_help ? ", or data.store = \"files\"" : ""));
  }
}

double weight_of(const TrainerContext& context, const data::Batch& batch, data::Range rows) {
  using parallel::GradientReducer;
  const double weight = context.task().weight(batch, rows);
  if (GradientReducer::can_count(weight)) return weight;
  std::ostringstream text;
  text << "the task " << context.recipe().task.name << " counts " << weight
       << "; that has to be 0, or from " << GradientReducer::kLeastSamples << " to "
       << GradientReducer::kMostSamples;
  throw UsageError(text.str());
}

void LeftOut::add(const TrainerContext& context, const data::Batch& batch) {
  if (samples_ == 0 && batch.size() > 0) {
    context.world().log().warning(
        "sample " + std::to_string(batch.samples.front()) +
        " is all that is left of this rank's share of a batch, and the model can't be trained on "
        "one alone: it is left out, as others like it will be");
  }
  samples_ += batch.size();
}

}  // namespace convoy::train
