#include "train/run/saved_score.h"

#include <string>

#include "train/rank_work.h"

namespace convoy::train {
namespace {

void tell(const Inputs& inputs, const CheckpointFolder& checkpoints, const Manifest& saved,
          const std::string& figure) {
  if (inputs.arrangement.owner < 0) return;
  on_rank(inputs.all(), inputs.arrangement.owner, [&]() -> std::string {
    const std::string best = checkpoints.best_like(saved);
    const bool same_figure = figure == inputs.figure;
    if (same_figure && best.empty() && !saved.score) return "";  // there was nothing to compare
    const std::string why =
        same_figure ? "the checkpoint's scores were not measured on this run's data with its "
                      "options: the best checkpoint is"
                    : "the best checkpoint goes by " + inputs.figure +
                          " now, in the checkpoint by " + figure + ": it is";
    inputs.world.log().info(why + " looked for anew" +
                            (best.empty() ? ""
                                          : "; " + best + ", the best by " + figure +
                                                ", is kept no longer than others"));
    return "";
  });
}

}  // namespace

SavedScore saved_score(const Inputs& inputs, const CheckpointFolder& checkpoints,
                       const Manifest& saved) {
  const std::string& figure = saved.metric;
  const bool same_data = inputs.measured_on == saved.measured_on;
  const bool comparable = same_data && figure == inputs.figure;
  if (!comparable) tell(inputs, checkpoints, saved, figure);
  SavedScore result;
  if (comparable) result.score = saved.score;
  const bool says = !inputs.target || (comparable && inputs.target->name == inputs.best);
  result.evaluated = saved.score && same_data && says;
  if (inputs.target && result.evaluated) result.target_reached = inputs.reached(*saved.score);
  return result;
}

}  // namespace convoy::train
