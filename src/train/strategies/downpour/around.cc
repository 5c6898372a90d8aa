#include "train/strategies/downpour/around.h"

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "train/strategies/partitioned/needs.h"
#include "train/strategies/partitioned/partitioned.h"
#include "train/strategies/sync/sync.h"

namespace convoy::train {

Arrangement Around::arrange(const comm::World& world, const Recipe& recipe) {
  recipe_ = replica_recipe(recipe);
  inner_ = recipe_.strategy == "partitioned" ? make_partitioned() : make_sync();
  return inner_->arrange(world, recipe_);
}

void Around::check_world(const comm::World& world) const {
  if (world.size() == recipe_.grid.partitions) return;
  throw UsageError(
      "a replica of this recipe is a job of " + std::to_string(recipe_.grid.partitions) +
      (recipe_.grid.partitions == 1 ? " rank" : " ranks") +
      ", as many as grid.partitions says; this one has " + std::to_string(world.size()));
}

// What is chosen is the same on all replicas, and chosen again by each.
Options Around::settle(const NetworkSource& source, const Recipe*) {
  recipe_.strategy_options = inner_->settle(InnerSource(source, recipe_, use_of(source)), nullptr);
  return source.recipe().strategy_options;
}

InnerUse Around::use_of(const NetworkSource& outer) const {
  if (!outer.trains()) return {.trains = false};
  return {.trains = true, .copies = copies_around(outer.job())};
}

void Around::build(const NetworkSource& source) {
  inner_->build(InnerSource(source, recipe_, use_of(source)));
}

std::size_t Around::least_share(TrainerContext& context) {
  InnerContext own(context, recipe_);
  return inner_->least_share(own);
}

void Around::prepare(TrainerContext&, const State*) {
  throw UsageError(
      "this strategy trains with processes of several roles around a parameter server: `convoy "
      "train` "
      "starts them (docs/downpour.md, docs/sandblaster.md)");
}

void Around::describe(TrainerContext& context,
                      const std::vector<parallel::NamedTensor>& parameters) {
  const comm::Communicator& ranks = context.world().communicator();
  const at::ScalarType type = recipe_.precision == "float64" ? torch::kDouble : torch::kFloat;
  vectors_.emplace(ranks, recipe_.optimizer, parameters, inner_->module(), inner_->state().parts,
                   type);
  description_.model = recipe_.model.name;
  description_.vectors = vectors_->specs();
  description_.epoch_samples = context.training_data().size();
  description_.data = "seed " + std::to_string(recipe_.seed) + ", data " +
                      to_hex(context.training_data().fingerprint());
}

}  // namespace convoy::train
