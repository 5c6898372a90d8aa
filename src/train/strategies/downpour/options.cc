#include "train/strategies/downpour/options.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/train/downpour.h"
#include "convoy/train/optimizer_rule.h"
#include "train/strategies/key_checker.h"
#include "train/strategies/server_keys.h"

namespace convoy::train {
namespace {

using Texts = std::vector<std::string>;

const Texts kLocalSteps{"again", "drop"};
const Texts kWires{"float32", "bfloat16", "float16"};
constexpr std::int64_t kMost = 1'000'000'000;
// That a portion has, unless the recipe says otherwise: few enough that who is slow at the end of a
// training holds up little, enough that asking for them costs nothing.
constexpr std::int64_t kMiniBatches = 16;

void check_steps(const Recipe& recipe, const DownpourRecipe& d, KeyChecker& c) {
  c.within("n_fetch", d.n_fetch, 1, 1'000'000);
  c.within("n_push", d.n_push, 1, 1'000'000);
  c.expect(d.local_lr >= 0 && std::isfinite(d.local_lr),
           "downpour.local_lr can't be negative or infinite");
  c.one_of("local_steps", d.local_steps, kLocalSteps);
  c.within("staleness_bound", d.staleness_bound, -1, kMost);
  c.within("warm_steps", d.warm_steps, 0, kMost);
  c.expect(d.warm_seconds >= 0 && std::isfinite(d.warm_seconds),
           "downpour.warm_seconds can't be negative or infinite");
  c.one_of("push_wire", d.push_wire, kWires);
  c.one_of("fetch_wire", d.fetch_wire, kWires);
  c.within("portion", d.portion, 0, std::numeric_limits<std::uint32_t>::max());
  const std::int64_t batch = recipe.training.batch;
  if (!d.rounds()) {
    c.expect(d.portion == 0 || batch < 1 || d.portion % batch == 0,
             "downpour.portion is " + std::to_string(d.portion) +
                 "; it has to be a multiple of training.batch, which is " + std::to_string(batch));
    return;
  }
  // Every update is one of all replicas together.
  const std::string rounds = "; with staleness_bound = 0 ";
  c.expect(d.n_fetch == 1 && d.n_push == 1, "downpour.n_fetch is " + std::to_string(d.n_fetch) +
                                                " and n_push is " + std::to_string(d.n_push) +
                                                rounds + "both are 1");
  c.expect(d.portion == 0, "downpour.portion is " + std::to_string(d.portion) + rounds +
                               "it is each replica's share of a batch: leave it out");
  c.expect(d.warm_steps == 0 && d.warm_seconds == 0,
           "downpour.warm_steps and warm_seconds are for replicas that don't wait for each other" +
               rounds + "they do");
  c.expect(!d.scale_by_staleness,
           "downpour.scale_by_staleness is true" + rounds + "no gradient is stale");
  c.expect(d.replicas < 1 || batch % d.replicas == 0,
           "training.batch is " + std::to_string(batch) + rounds +
               "it has to be a multiple of downpour.replicas, which is " +
               std::to_string(d.replicas));
}

// What is left of Convoy's own rules: shards have slices of parameters, and no norms of whole ones.
Texts rules_of_servers() {
  Texts names;
  for (const auto& kind : built_in_optimizers()) {
    if (kind->on_servers) names.push_back(kind->name);
  }
  return names;
}

// What is wrong with its values is said elsewhere.
bool is_layerwise(const OptimizerRecipe& optimizer) {
  try {
    return optim::is_layerwise(optimizer_rule(optimizer));
  } catch (const std::exception&) {
    return false;
  }
}

void check_rule(const OptimizerRecipe& optimizer, KeyChecker& c) {
  const std::string is = "optimizer.name is '" + optimizer.name + "', ";
  const std::string servers = "; with downpour servers apply the rule, which have ";
  const std::string can_be = "it can be " + any_of_words(rules_of_servers());
  if (!has_rule(optimizer)) {
    c.expect(false,
             is + "a plugin's" + servers + "Convoy's own: " + any_of_words(rules_of_servers()));
    return;
  }
  if (with_defaults(optimizer).kind->on_servers) return;
  c.expect(false, is + (is_layerwise(optimizer)
                            ? "which goes by norms of whole parameters" + servers +
                                  "slices of them; " + can_be
                            : "whose plugin doesn't let servers apply it "
                              "(OptimizerKind::on_servers), as they do with downpour; " +
                                  can_be));
}

void check_others(const Recipe& recipe, KeyChecker& c) {
  // The coordinator counts samples.
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 62;
  const std::int64_t batch = std::max<std::int64_t>(recipe.training.batch, 1);
  c.expect(recipe.training.steps <= kMostSamples / batch,
           "training.steps is " + std::to_string(recipe.training.steps) +
               "; with downpour, steps of training.batch = " + std::to_string(batch) +
               " can be at most " + std::to_string(kMostSamples / batch));
  check_rule(recipe.optimizer, c);
  c.expect(recipe.precision != "float64",
           "precision is float64; the parameters on servers are float32");
  c.expect(recipe.data.shuffle_every_epochs == 1 && recipe.data.shuffle_every_steps == 0,
           "data.shuffle_every_epochs and shuffle_every_steps: with downpour every epoch has an "
           "order of its own; leave them out");
}

}  // namespace

std::vector<Option> downpour_keys() {
  const DownpourRecipe d;
  return with_server_keys(
      {{"n_fetch", d.n_fetch, "mini-batches between two fetches of the parameters"},
       {"n_push", d.n_push, "mini-batches between two pushes of gradients"},
       {"local_lr", d.local_lr,
        "rate of the steps that a replica makes by itself between fetches; 0: the optimizer's"},
       {"local_steps", d.local_steps,
        "what becomes of those that fetched parameters don't have yet: they are made again, or "
        "drop"},
       {"staleness_bound", d.staleness_bound,
        "updates that may come between fetch and push of a gradient; 0: replicas make every update "
        "together; -1: any number"},
       {"scale_by_staleness", d.scale_by_staleness,
        "a gradient that is s updates stale is applied with 1/s of the rate"},
       {"portion", d.portion,
        "samples that a replica gets at a time; 0: of 16 mini-batches, or a few more"},
       {"warm_steps", d.warm_steps, "mini-batches that one replica makes alone at the start"},
       {"warm_seconds", d.warm_seconds, "or for so long, whichever is over first; 0: not"},
       {"push_wire", d.push_wire, "type in which gradients travel: float32, bfloat16, float16"},
       {"fetch_wire", d.fetch_wire, "type in which parameters travel"}});
}

DownpourRecipe downpour_of(const Recipe& recipe) {
  const Options& o = recipe.strategy_options;
  DownpourRecipe d;
  static_cast<ServerJobRecipe&>(d) = server_job_of(recipe);
  d.n_fetch = o.integer("n_fetch");
  d.n_push = o.integer("n_push");
  d.local_lr = o.number("local_lr");
  d.local_steps = o.text("local_steps");
  d.staleness_bound = o.integer("staleness_bound");
  d.scale_by_staleness = o.flag("scale_by_staleness");
  d.portion = o.integer("portion");
  d.warm_steps = o.integer("warm_steps");
  d.warm_seconds = o.number("warm_seconds");
  d.push_wire = o.text("push_wire");
  d.fetch_wire = o.text("fetch_wire");
  return d;
}

void check_downpour(const Recipe& recipe, std::vector<std::string>& problems) {
  const DownpourRecipe d = downpour_of(recipe);
  check_server_keys(recipe, problems);
  KeyChecker c(kDownpour, problems);
  check_steps(recipe, d, c);
  check_others(recipe, c);
}

server::JobPlan job_plan(const Recipe& recipe, const Manifest* from) {
  const DownpourRecipe d = downpour_of(recipe);
  const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  server::JobPlan plan = plan_of_servers(recipe);
  if (d.staleness_bound >= 0) plan.staleness_bound = count(d.staleness_bound);
  plan.scale_by_staleness = d.scale_by_staleness;
  plan.drop_last = recipe.data.drop_last;
  const std::int64_t batch = recipe.training.batch;
  plan.batch = plan.portion = count(d.rounds() ? batch / d.replicas : batch);
  if (!d.rounds()) {
    const std::int64_t pushes = (kMiniBatches + d.n_push - 1) / d.n_push;
    plan.portion = count(d.portion > 0 ? d.portion : batch * d.n_push * pushes);
  }
  plan.warm_samples = count(d.warm_steps * batch);
  plan.warm_seconds = d.warm_seconds;
  plan.epochs = count(recipe.training.epochs);
  if (recipe.training.steps > 0) plan.samples = count(recipe.training.steps * batch);
  if (from == nullptr) return plan;
  if (from->position.generation > from->position.epoch || from->position.members > 0) {
    throw UsageError(
        "the checkpoint was made in the middle of an epoch whose order was changed "
        "(data.shuffle_every_steps, or groups of a store in memory), which a parameter server's "
        "job can't go on with; take one of the end of an epoch");
  }
  plan.first_epoch = from->position.epoch;
  for (const data::Range& range : from->position.consumed)
    plan.consumed.emplace_back(range.begin, range.end);
  if (plan.samples > 0) {
    // Steps that are left, of today's batch, behind what was consumed before.
    const std::uint64_t length =
        plan.drop_last ? from->samples / count(batch) * count(batch) : from->samples;
    const std::uint64_t before =
        from->position.epoch * length + std::min<std::uint64_t>(from->position.count(), length);
    const std::int64_t left = std::max<std::int64_t>(recipe.training.steps - from->step, 0);
    plan.samples = before + count(left * batch);
  }
  return plan;
}

}  // namespace convoy::train
