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
    inputs.world.log().info("the best checkpoint goes by " + inputs.figure +
                            " now, in the checkpoint by " + figure + ": it is looked for anew" +
                            (best.empty() ? ""
                                          : "; " + best + ", the best by " + figure +
                                                ", is kept no longer than others"));
    return "";
  });
}

}  // namespace

SavedScore saved_score(const Inputs& inputs, const CheckpointFolder& checkpoints,
                       const Manifest& saved) {
  std::string figure = figure_of(saved);
  if (figure.empty()) figure = inputs.task->usual_best();
  const bool comparable = figure == inputs.figure;
  if (!comparable) tell(inputs, checkpoints, saved, figure);
  SavedScore result;
  if (comparable) result.score = saved.score;
  const bool says = !inputs.target || (comparable && inputs.target->name == inputs.best);
  result.evaluated = saved.score && says;
  if (inputs.target && result.evaluated) result.target_reached = inputs.reached(*saved.score);
  return result;
}

}  // namespace convoy::train
