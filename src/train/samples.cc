#include "train/samples.h"

#include <string>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/store_source.h"

namespace convoy::train {
namespace {

// Seconds between two lines about loading.
constexpr double kPause = 10;

std::string text_of(const data::StoreNeed& need, int world) {
  if (need.placement == data::Placement::files)
    return "data.train does not fit into memory: read from files, through the page cache";
  if (need.placement == data::Placement::host)
    return "data.train in memory, once on each host: " + format_bytes(need.part) +
           " for each of its ranks";
  return "data.train in memory: " + format_bytes(need.part) + " on each of " +
         std::to_string(world) +
         " ranks (with all that shuffles need: " + format_bytes(need.total()) + "), " +
         std::to_string(need.groups) + (need.groups == 1 ? " group" : " groups");
}

// Tells rank 0's log what is going on.
void tell_of_loading(const comm::World& world, data::StoreOptions& options) {
  if (world.rank() != 0) return;
  options.planned = [log = world.log(), ranks = world.size()](const data::StoreNeed& need) {
    log.info(text_of(need, ranks));
  };
  options.tell = [log = world.log(), last = Clock::now()](double done, double total) mutable {
    if (done < total && seconds_since(last) < kPause) return;
    last = Clock::now();
    log.info("data.train: " + format_bytes(static_cast<std::uint64_t>(done)) + " of " +
             format_bytes(static_cast<std::uint64_t>(total)) + " loaded");
  };
}

}  // namespace

std::unique_ptr<data::SampleSource> open_samples(const comm::World& world,
                                                 std::shared_ptr<data::Dataset> dataset,
                                                 const data::TransformOptions& transform,
                                                 const data::LoaderOptions& options,
                                                 const DataRecipe& recipe) {
  if (recipe.store == "files")
    return std::make_unique<data::Loader>(std::move(dataset), transform, options);
  const auto loadable = std::dynamic_pointer_cast<const data::LoadableDataset>(dataset);
  if (loadable == nullptr) {
    throw UsageError("data.store = \"" + recipe.store +
                     "\" is for packed data (convoy pack makes it), not for " + recipe.reader);
  }
  data::StoreOptions store_options;
  if (recipe.store == "host") store_options.placement = data::Placement::host;
  if (recipe.store == "auto") store_options.placement = data::Placement::best;
  if (!recipe.store_memory.empty()) store_options.host_memory = parse_bytes(recipe.store_memory);
  store_options.groups = static_cast<int>(recipe.groups);
  store_options.threads = options.threads;
  tell_of_loading(world, store_options);
  data::CommPeers peers(world.communicator());
  const auto store = std::make_shared<data::Store>(loadable, peers, store_options);
  data::ShuffleOptions shuffle;
  shuffle.every_epochs = static_cast<std::uint64_t>(recipe.shuffle_every_epochs);
  shuffle.every_steps = static_cast<std::uint64_t>(recipe.shuffle_every_steps);
  shuffle.random_batches = recipe.random_batches;
  return std::make_unique<data::StoreSource>(store, transform, options, shuffle);
}

}  // namespace convoy::train
