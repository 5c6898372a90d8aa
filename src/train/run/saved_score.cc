#include "train/run/saved_score.h"

#include <string>

#include "base/toml_text.h"
#include "train/checkpoint/open_checkpoint.h"
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

// As the run folder has it; that is the owner's.
std::optional<double> best_score(const Inputs& inputs, const CheckpointFolder& checkpoints,
                                 Manifest saved) {
  if (inputs.arrangement.owner < 0) return std::nullopt;
  saved.metric = inputs.figure;
  saved.measured_on = inputs.measured_on;
  const std::string text = on_rank(inputs.all(), inputs.arrangement.owner, [&]() -> std::string {
    const std::string best = checkpoints.best_like(saved);
    if (best.empty()) return "";
    const std::optional<double> score = read_manifest(best).score;
    return score ? shortest(*score) : "";
  });
  if (text.empty()) return std::nullopt;
  return std::stod(text);
}

}  // namespace

SavedScore saved_score(const Inputs& inputs, const CheckpointFolder& checkpoints,
                       const Manifest& saved) {
  std::string figure = figure_of(saved);
  if (figure.empty()) figure = inputs.task->usual_best();
  const bool same_data = inputs.measured_on == saved.measured_on;
  const bool comparable = same_data && figure == inputs.figure;
  if (!comparable) tell(inputs, checkpoints, saved, figure);
  SavedScore result;
  if (comparable) result.score = saved.score;
  const bool says = !inputs.target || (comparable && inputs.target->name == inputs.best);
  result.evaluated = saved.score && same_data && says;
  result.best = best_score(inputs, checkpoints, saved);
  if (inputs.target && result.evaluated) result.target_reached = inputs.reached(*saved.score);
  return result;
}

}  // namespace convoy::train
