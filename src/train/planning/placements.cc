// The placement that a recipe has, and those that it could have.
#include "convoy/train/planning.h"
#include "train/strategies/hybrid/options.h"

namespace convoy::train {

plan::Placement placement_of(const Recipe& recipe) {
  if (recipe.strategy == "sync") return {.kind = plan::Parallelism::data};
  const HybridOptions options = hybrid_options(recipe);
  return {.kind = plan::Parallelism::hybrid,
          .partitions = static_cast<int>(recipe.grid.partitions),
          .senders = options.senders,
          .variable_batch = options.variable_batch,
          .passes = options.passes};
}

PlacementPlan plan_placement(const PlacementProblem& problem,
                             const plan::MeasuredPlacement& measured, bool variable_batch,
                             double memory_bytes) {
  plan::TrainingCost cost = training_cost(problem);
  add_times(cost, problem.recipe.model.name, measured);
  PlacementPlan plan;
  for (const plan::Placement& placement : placements(cost, problem.ranks, variable_batch)) {
    plan.forecasts.push_back(forecast(cost, measured.network, measured.processor(), problem.ranks,
                                      problem.samples_per_rank, placement));
  }
  plan.best = best_placement(plan.forecasts, memory_bytes);
  return plan;
}

}  // namespace convoy::train
