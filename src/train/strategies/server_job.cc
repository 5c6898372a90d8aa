#include "convoy/train/server_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/train/downpour.h"
#include "convoy/train/sandblaster.h"
#include "train/strategies/key_checker.h"
#include "train/strategies/server_keys.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kDurabilities{"replicated", "synced", "none"};

std::int64_t servers_needed(const ServerJobRecipe& job) {
  return std::max<std::int64_t>(job.shards, job.backups ? 2 : 1);
}

}  // namespace

bool is_server_job(const std::string& strategy) {
  return strategy == kDownpour || strategy == kSandblaster;
}

std::vector<Option> with_server_keys(std::vector<Option> own) {
  const ServerJobRecipe job;
  std::vector<Option> keys{
      {"replicas", job.replicas, "copies of the model that train, each a job of its own"},
      {"shards", job.shards, "that the parameters are divided into"},
      {"servers", job.servers, "processes that hold shards; 0: as many as are needed"},
      {"backups", job.backups, "each shard is on a second server, too"},
      {"durability", job.durability,
       "when a change is acknowledged: replicated (the backup has it), synced (it is on disk), "
       "none (no log: nothing outlives the servers)"}};
  keys.insert(keys.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  keys.push_back({"lease_s", job.lease_s, "a replica that isn't heard of for so long is given up"});
  keys.push_back({"hosts", job.hosts,
                  "where processes run, node1:2 for places of several; empty: here. See "
                  "docs/downpour.md"});
  keys.push_back({"etcd", job.etcd,
                  "addresses of etcd, where the coordinator keeps its state; empty: a file"});
  keys.push_back({"restarts", job.restarts, "of each process that fails, before the job does"});
  return keys;
}

ServerJobRecipe server_job_of(const Recipe& recipe) {
  const Options& o = recipe.strategy_options;
  ServerJobRecipe job;
  job.replicas = o.integer("replicas");
  job.shards = o.integer("shards");
  job.servers = o.integer("servers");
  job.backups = o.flag("backups");
  job.durability = o.text("durability");
  job.lease_s = o.number("lease_s");
  job.hosts = o.texts("hosts");
  job.etcd = o.texts("etcd");
  job.restarts = o.integer("restarts");
  return job;
}

void check_server_keys(const Recipe& recipe, std::vector<std::string>& problems) {
  const ServerJobRecipe job = server_job_of(recipe);
  const std::string& strategy = recipe.strategy;
  KeyChecker c(strategy, problems);
  c.within("replicas", job.replicas, 1, 10'000);
  c.within("shards", job.shards, 1, 1024);
  c.within("servers", job.servers, 0, 1024);
  c.expect(job.servers <= 0 || job.servers >= servers_needed(job),
           c.key("servers") + " is " + std::to_string(job.servers) + "; " +
               std::to_string(job.shards) + (job.shards == 1 ? " shard" : " shards") +
               (job.backups ? " with backups" : "") + " need " +
               std::to_string(servers_needed(job)) + " at least (0: as many as needed)");
  c.one_of("durability", job.durability, kDurabilities);
  c.expect(job.lease_s >= 0.1 && job.lease_s <= 3600, c.key("lease_s") + " has to be 0.1 to 3600");
  c.within("restarts", job.restarts, 0, 1'000'000);
  c.expect(recipe.grid.replicas <= 1,
           "grid.replicas is " + std::to_string(recipe.grid.replicas) + "; with " + strategy +
               " each replica is a job of its own: " + c.key("replicas") + " says how many");
  c.expect(!recipe.data.random_batches, "data.random_batches is true; with " + strategy +
                                            " the coordinator says who has which samples");
  const auto sync = recipe.candidates.find("sync");
  const bool has_devices = sync != recipe.candidates.end() && sync->second.has("devices");
  const std::int64_t devices = has_devices ? sync->second.integer("devices") : 1;
  c.expect(devices == 1, "sync.devices is " + std::to_string(devices) + "; with " + strategy +
                             " each rank drives one device: 1");
}

Recipe replica_recipe(const Recipe& recipe) {
  Recipe own = recipe;
  own.strategy = recipe.grid.partitions > 1 ? "partitioned" : "sync";
  const auto keys = recipe.candidates.find(own.strategy);
  if (keys != recipe.candidates.end()) own.strategy_options = keys->second;
  own.candidates.clear();
  own.grid.replicas = 0;
  // Their gradient is zero: the method looks at the whole batch.
  if (recipe.strategy == kSandblaster && own.strategy_options.has("allow_unused"))
    own.strategy_options.set("allow_unused", true);
  if (recipe.strategy != kDownpour) return own;
  const DownpourRecipe downpour = downpour_of(recipe);
  if (downpour.rounds() && downpour.replicas > 0)
    own.training.batch = recipe.training.batch / downpour.replicas;
  return own;
}

server::JobPlan plan_of_servers(const Recipe& recipe) {
  const ServerJobRecipe job = server_job_of(recipe);
  server::JobPlan plan;
  plan.name = recipe.name;
  plan.recipe = print_recipe(recipe, false);
  plan.shards = static_cast<std::uint32_t>(job.shards);
  plan.servers = static_cast<std::uint32_t>(job.servers > 0 ? job.servers : servers_needed(job));
  plan.backups = job.backups;
  plan.log = job.durability != "none";
  plan.synced = job.durability == "synced";
  plan.replicas = static_cast<std::uint32_t>(job.replicas);
  plan.client_lease_ms = static_cast<std::uint64_t>(std::llround(job.lease_s * 1000));
  return plan;
}

server::JobPlan server_job_plan(const Recipe& recipe, const Manifest* from) {
  return recipe.strategy == kDownpour ? job_plan(recipe, from) : batch_plan(recipe, from);
}

}  // namespace convoy::train
