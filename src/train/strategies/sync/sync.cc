#include "train/strategies/sync/sync.h"

#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/registry.h"
#include "train/finite.h"
#include "train/setup.h"
#include "train/strategies/devices/options.h"
#include "train/strategies/devices/replicas.h"
#include "train/strategies/reducer_keys.h"
#include "train/strategies/sync/strategy.h"

namespace convoy::train {
namespace {

std::vector<Option> keys() {
  std::vector<Option> keys = reducer_keys();
  keys.push_back({"allow_unused", false, "parameters may get no gradient in a step"});
  for (Option& key : device_keys()) keys.push_back(std::move(key));
  return keys;
}

void check_recipe(const Recipe& recipe, std::vector<std::string>& problems) {
  check_reducer_keys(recipe, problems);
  check_device_keys(recipe, problems);
  if (recipe.grid.partitions > 1) {
    problems.push_back("grid.partitions is " + std::to_string(recipe.grid.partitions) +
                       "; with sync every rank holds the whole model: 1");
  }
}

}  // namespace

parallel::DistributedOptions Sync::options(const State* saved) const {
  const Recipe& recipe = context_->recipe();
  parallel::DistributedOptions distributed = distributed_options(recipe);
  distributed.allow_unused = recipe.strategy_options.flag("allow_unused");
  // A resumed run has to add up gradients as this one does, see ReducerOptions::order.
  distributed.nominal_samples =
      static_cast<double>(recipe.training.batch) /
      static_cast<double>(context_->world().size() * devices_ * recipe.training.accumulate);
  if (saved != nullptr) {
    const auto order = saved->lists.find("sync.gradient_order");
    if (order != saved->lists.end()) distributed.order = order_that_fits(order->second, *network_);
  }
  return distributed;
}

Arrangement Sync::arrange(const comm::World& world, const Recipe& recipe) {
  parallel::GridShape::of(recipe.grid.replicas, 1, world.size(), /*divides=*/false);
  devices_ = devices_of(recipe).devices;
  ranks_of_host_ = world.local_size();
  all_ranks_ = world.communicator();
  return {.share = world.rank(), .shares = world.size(), .group = {}};
}

void Sync::build(const NetworkSource& source) {
  network_ = source.whole();
  auxiliary_.clear();
  if (const model::Blueprint* data = network_->blueprint()) auxiliary_ = data->auxiliary;
  more_replicas_.clear();
  if (devices_ == 1 || inside_ || !source.trains()) return;
  check_replicas_fit(all_ranks_, *network_, source.recipe(), ranks_of_host_);
  for (std::int64_t device = 1; device < devices_; ++device)
    more_replicas_.push_back(source.whole());
}

std::size_t Sync::least_share(TrainerContext& context) {
  const Recipe& recipe = context.recipe();
  if (!synchronized_statistics(recipe) || context.world().size() * devices_ == 1)
    least_share_ = least_samples(*network_, context.task(), context.compute());
  return least_share_;
}

// Weights are those of the first device, running statistics each device's own.
std::string Sync::not_finite_beside(const std::set<std::string>& meant) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < more_replicas_.size(); ++i) {
    for (const auto& buffer : more_replicas_[i]->named_buffers()) {
      if (buffer.value().defined() && !meant.contains(buffer.key()) &&
          !has_finite_values(buffer.value()))
        return buffer.key() + " (device " + std::to_string(i + 1) + ")";
    }
  }
  return "";
}

// Who gets even shares of a batch.
Sharers Sync::sharers() const {
  Sharers all = all_ranks(*context_);
  if (devices_ == 1) return all;
  all.count *= static_cast<std::size_t>(devices_);
  all.name = "device";
  return all;
}

void Sync::check_devices() const {
  if (devices_ == 1) return;
  const Recipe& recipe = context_->recipe();
  if (inside_) {
    throw UsageError("sync.devices is " + std::to_string(devices_) +
                     "; the ranks of a replica around a parameter server drive one device each: 1");
  }
  const std::int64_t ranks = context_->world().size();
  if (ranks * devices_ > recipe.training.batch) {
    throw UsageError(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " of " +
                     std::to_string(devices_) + " devices (sync.devices) are more devices than a " +
                     "batch has samples (training.batch is " +
                     std::to_string(recipe.training.batch) + "): some would have none");
  }
  if (synchronized_ && !DeviceTable::devices_may_communicate(context_->world())) {
    throw UsageError(
        "sync.batch_norm is synchronized, for which every device's thread communicates, and this "
        "MPI lets only one thread (it has no MPI_THREAD_MULTIPLE): set sync.batch_norm = "
        "\"local\", or sync.devices = 1");
  }
  check_draws_nothing(*network_, context_->task(), context_->compute(), recipe.model.name);
}

void Sync::prepare(TrainerContext& context, const State* saved) {
  context_ = &context;
  const Recipe& recipe = context.recipe();
  synchronized_ = synchronized_statistics(recipe);
  check_devices();
  if (synchronized_) check_synchronized_shares(context, sharers());
  check_least_share(context, least_share_, all_ranks(context));
  const comm::Communicator& all = context.world().communicator();
  communicator_ = context.recipe().strategy_options.flag("reproducible")
                      ? all.with_reproducible(true)
                      : all.duplicate();
  tally_ = Tally(communicator_);
  if (saved != nullptr) load_module(*network_, *saved, "the checkpoint");
  if (devices_ == 1) {
    model_.emplace(context.world(), network_, options(saved));
    buffers_ = LocalBuffers(communicator_, parallel::unique_buffers(*network_));
  } else {
    std::vector<std::shared_ptr<model::Network>> replicas{network_};
    replicas.insert(replicas.end(), more_replicas_.begin(), more_replicas_.end());
    table_ = std::make_unique<DeviceTable>(context, replicas, auxiliary_, options(saved));
    buffers_ = LocalBuffers(communicator_, table_->buffers());
  }
  parameters_ = parallel::unique_parameters(*network_);
  tensors_ = tensors_of(parameters_);
  optimizer_.emplace(context.make_optimizer(parameters_));
  noise_ = NoiseMeter(communicator_, parameters_, recipe.training.noise_every);
  if (saved == nullptr) return;
  optimizer_->load(*saved);
  buffers_.load(saved->rank);
}

State Sync::state() {
  State state;
  describe_module(*network_, state);
  optimizer_->save(state);
  // Before the first update it is not the one that is measured then.
  if (context_->moment().step > 0) {
    std::vector<std::string>& order = state.lists["sync.gradient_order"];
    for (const auto& bucket : reducer().buckets())
      order.insert(order.end(), bucket.begin(), bucket.end());
  }
  state.rank = buffers_.own();
  return state;
}

void Sync::with_whole_model(const std::function<void()>& use) { buffers_.with_united(use); }

void add_sync(Registry& registry) {
  registry.add_strategy(
      "sync", [] { return std::make_unique<Sync>(); }, keys(), check_recipe);
}

std::unique_ptr<Strategy> make_sync() { return std::make_unique<Sync>(/*inside=*/true); }

}  // namespace convoy::train
