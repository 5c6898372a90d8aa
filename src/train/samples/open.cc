#include "train/samples/open.h"

#include <string>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/store_source.h"
#include "convoy/train/evaluate.h"
#include "train/facts.h"
#include "train/samples/handed_source.h"

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

data::LoaderOptions loader_options(const data::Dataset& dataset, const SampleOptions& o) {
  data::LoaderOptions options;
  options.rank = o.arrangement.share;
  options.world = o.arrangement.shares;
  options.seed = static_cast<std::uint64_t>(o.recipe.seed);
  options.layout = o.layout;
  options.threads = decoding_threads(o.recipe);
  options.on_bad = on_bad(o.recipe.data);
  options.raw = o.task.raw();
  options.cost = o.task.cost(dataset);
  options.nothing = !o.arrangement.reads();
  options.memory = o.memory;
  return options;
}

std::unique_ptr<data::SampleSource> handed_on(std::unique_ptr<data::SampleSource> source,
                                              const Arrangement& arrangement) {
  if (!arrangement.group.valid()) return source;
  return std::make_unique<HandedSource>(std::move(source), arrangement.group);
}

// `groups` of ranks that hold everything, where each has a part.
std::shared_ptr<data::Store> load_store(const comm::World& world,
                                        const std::shared_ptr<data::Dataset>& dataset,
                                        const DataRecipe& recipe, int threads, int groups) {
  const auto loadable = std::dynamic_pointer_cast<const data::LoadableDataset>(dataset);
  if (loadable == nullptr) {
    throw UsageError("data.store = \"" + recipe.store +
                     "\" is for packed data (convoy pack makes it), not for " + recipe.reader);
  }
  data::StoreOptions store_options;
  if (recipe.store == "host") store_options.placement = data::Placement::host;
  if (recipe.store == "auto") store_options.placement = data::Placement::best;
  if (!recipe.store_memory.empty()) store_options.host_memory = parse_bytes(recipe.store_memory);
  store_options.groups = groups;
  store_options.threads = threads;
  tell_of_loading(world, store_options);
  data::CommPeers peers(world.communicator());
  return std::make_shared<data::Store>(loadable, peers, store_options);
}

// For ranks any of which may need any record.
std::shared_ptr<data::Store> in_memory(const comm::World& world,
                                       const std::shared_ptr<data::Dataset>& dataset,
                                       const DataRecipe& recipe, int threads) {
  return load_store(world, dataset, recipe, threads, world.size());
}

// From a store over the ranks that read.
std::unique_ptr<data::SampleSource> open_store(const comm::World& world,
                                               const std::shared_ptr<data::Dataset>& dataset,
                                               const SampleOptions& o,
                                               const data::LoaderOptions& options) {
  const DataRecipe& recipe = o.recipe.data;
  const auto store =
      load_store(world, dataset, recipe, options.threads, static_cast<int>(recipe.groups));
  data::ShuffleOptions shuffle;
  shuffle.every_epochs = static_cast<std::uint64_t>(recipe.shuffle_every_epochs);
  shuffle.every_steps = static_cast<std::uint64_t>(recipe.shuffle_every_steps);
  shuffle.random_batches = recipe.random_batches;
  return std::make_unique<data::StoreSource>(store, training_transform(recipe), options, shuffle);
}

}  // namespace

std::unique_ptr<data::SampleSource> open_samples(const comm::World& world,
                                                 const std::shared_ptr<data::Dataset>& dataset,
                                                 const SampleOptions& o) {
  const Recipe& recipe = o.recipe;
  data::LoaderOptions options = loader_options(*dataset, o);
  options.batch = static_cast<std::size_t>(recipe.training.batch);
  options.drop_last = recipe.data.drop_last;
  options.portions = o.arrangement.portions;
  if (options.portions) {
    // The coordinator leaves out what is to be left out.
    options.drop_last = false;
    if (options.cost) {
      throw UsageError("batches of the task '" + recipe.task.name + "' are counted in " +
                       o.task.unit() +
                       ", and a coordinator assigns samples: choose another strategy");
    }
  }
  options.least_share = o.least_share;
  options.ahead = static_cast<std::size_t>(recipe.data.ahead);
  options.on_skip = [log = world.log()](const std::string& text) { log.warning(text); };
  if (!o.arrangement.trains) {
    options.nothing = true;
    return std::make_unique<data::Loader>(dataset, training_transform(recipe.data), options);
  }
  if (options.portions && recipe.data.store != "files") {
    return handed_on(
        std::make_unique<data::Loader>(in_memory(world, dataset, recipe.data, options.threads),
                                       training_transform(recipe.data), options),
        o.arrangement);
  }
  if (recipe.data.store == "files") {
    return handed_on(
        std::make_unique<data::Loader>(dataset, training_transform(recipe.data), options),
        o.arrangement);
  }
  // A store's ranks are those that read, and it shuffles while all of them wait for it.
  if (o.arrangement.shares != world.size() || !o.arrangement.reads()) {
    throw UsageError("data.store = \"" + recipe.data.store +
                     "\" is for strategies whose ranks all "
                     "read samples of their own; this run has " +
                     std::to_string(o.arrangement.shares) + " shares of a batch on " +
                     std::to_string(world.size()) + " ranks: use data.store = \"files\"");
  }
  if (options.raw) {
    throw UsageError("data.store = \"" + recipe.data.store + "\" holds images; the task " +
                     recipe.task.name + " reads records as they are: use data.store = \"files\"");
  }
  return open_store(world, dataset, o, options);
}

std::unique_ptr<data::SampleSource> open_evaluation(
    const std::shared_ptr<const data::Dataset>& dataset, const SampleOptions& o,
    const std::function<void(const std::string& message)>& on_skip) {
  const Recipe& recipe = o.recipe;
  data::LoaderOptions options = loader_options(*dataset, o);
  options.batch = static_cast<std::size_t>(recipe.evaluation.batch > 0 ? recipe.evaluation.batch
                                                                       : recipe.training.batch);
  options.shuffle = false;
  options.on_skip = on_skip;
  return handed_on(
      std::make_unique<data::Loader>(
          dataset, evaluation_transform(recipe.data, image_of(o.task.facts())), options),
      o.arrangement);
}

}  // namespace convoy::train
