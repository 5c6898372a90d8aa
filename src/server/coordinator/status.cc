// A coordinator's status as JSON (docs/server-coordinator.md).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/coordinator/facts.h"

namespace convoy::server::coordinator {
namespace {

using json = nlohmann::ordered_json;

const char* name_of(ClientRole role) {
  switch (role) {
    case ClientRole::replica:
      return "replica";
    case ClientRole::evaluator:
      return "evaluator";
    case ClientRole::observer:
      return "observer";
  }
  return "unknown";
}

const char* phase(const Facts& facts) {
  if (!facts.progress.ended.empty()) return "ended";
  if (!facts.described) return "waits for a description";
  if (!facts.initialized) return "waits for values";
  if (facts.progress.all_done) return "all samples are done";
  return facts.warm ? "warm start" : "training";
}

json progress_of(const Facts& facts) {
  const JobProgress& progress = facts.progress;
  const ReplicaReport& reported = progress.reported;
  json consumed = json::array();
  for (const auto& [begin, end] : progress.consumed) consumed.push_back({begin, end});
  json all = {{"epoch", progress.epoch},
              {"epoch_samples", facts.epoch_samples},
              {"consumed", consumed},
              {"samples", progress.samples},
              {"samples_twice", progress.twice},
              {"portions_redone", progress.redone},
              {"portions_held", facts.handed_portions},
              {"samples_to_redo", facts.left_to_redo},
              {"all_done", progress.all_done},
              {"replicas", progress.replicas}};
  all["reported"] = {
      {"steps", reported.steps},
      {"samples", reported.samples},
      {"loss", reported.weight > 0 ? json(reported.loss_sum / reported.weight) : json()},
      {"compute_s", reported.compute_s},
      {"fetch_wait_s", reported.fetch_wait_s},
      {"push_wait_s", reported.push_wait_s},
      {"data_wait_s", reported.data_wait_s},
      {"bad_records", reported.skipped}};
  return all;
}

json portions_of(const PortionCounts& counts) {
  return {{"portions_done", counts.done},
          {"portions_again", counts.again},
          {"portions_copied", counts.copies},
          {"portions_unused", counts.unused}};
}

json batch_of(const BatchFacts& batch) {
  const optim::BatchIteration& last = batch.start.last;
  json all = {{"iteration", batch.start.state.iteration},
              {"loss", batch.start.begun ? json(last.loss) : json()},
              {"gradient_norm", batch.start.begun ? json(last.gradient_norm) : json()},
              {"step", last.step},
              {"iteration_evaluations", last.evaluations},
              {"restarted", last.restarted},
              {"evaluations", batch.start.state.evaluations},
              {"weights", batch.start.begun
                              ? json(std::to_string(batch.start.state.weights.iteration) + "." +
                                     std::to_string(batch.start.state.weights.evaluation))
                              : json()},
              {"over", batch.over.empty() ? json() : json(batch.over)},
              {"ending", last.ending == optim::BatchEnding::none
                             ? json()
                             : json(std::string(optim::describe(last.ending)))},
              {"portions", batch.portions},
              {"evaluation", batch.begun ? json(std::to_string(batch.evaluation.iteration) + "." +
                                                std::to_string(batch.evaluation.evaluation))
                                         : json()},
              {"portions_done", batch.counts.done},
              {"groups", batch.counts.groups},
              {"portions_again", batch.counts.again},
              {"portions_copied", batch.counts.copies},
              {"portions_unused", batch.counts.unused},
              {"portion_bytes", batch.bytes},
              {"method_bytes", batch.method_bytes}};
  all["last"] = portions_of(batch.iteration);
  all["all"] = portions_of(batch.all);
  all["replicas"] = json::array();
  for (const BatchReplica& each : batch.replicas) {
    if (!each.here) continue;
    // An older `convoy status` takes one that isn't said to be here for gone.
    json replica = {{"replica", each.replica}, {"name", each.name}, {"here", true}};
    replica.update(portions_of(each.portions));
    replica["busy_s"] = each.busy_s;
    all["replicas"].push_back(std::move(replica));
  }
  all["gone"] = portions_of(batch.gone.portions);
  all["gone"]["replicas"] = batch.gone.replicas;
  all["gone"]["busy_s"] = batch.gone.busy_s;
  return all;
}

json shard_of(const ShardFacts& shard) {
  const auto& configuration = shard.configuration;
  json all = {{"shard", configuration.shard},
              {"epoch", configuration.epoch},
              {"primary", configuration.primary.node},
              {"backup", configuration.backup.node}};
  if (!shard.report) return all;
  const calls::ShardReport& report = *shard.report;
  all["report_age_s"] = shard.age_s;
  all["applied"] = report.applied;
  all["backup_lag"] = report.backup_lag;
  all["log_bytes"] = report.log_bytes;
  all["memory_bytes"] = report.memory_bytes;
  if (report.vectors) {
    all["vectors"] = report.vectors->vectors;
    all["vector_bytes"] = report.vectors->vector_bytes;
    all["group_bytes"] = report.vectors->group_bytes;
    all["portions_added"] = report.vectors->portions_added;
  }
  all["round"] = report.round;
  all["versions"] = report.versions;
  all["fetched_bytes"] = report.fetched_bytes;
  all["pushed_bytes"] = report.pushed_bytes;
  all["pushes_by_staleness"] = report.staleness.pushes;
  all["ledger"] = {{"count", report.ledger.count},
                   {"sum", report.ledger.sum},
                   {"squares", report.ledger.squares}};
  json clients = json::array();
  for (const ClientStatus& status : report.clients) {
    const ClientRecord& client = status.client;
    clients.push_back({{"client", status.id},
                       {"name", client.name},
                       {"member", client.member},
                       {"sequence", client.sequence},
                       {"staleness", client.reply.staleness},
                       {"pushes", client.pushes},
                       {"samples", client.samples},
                       {"staleness", client.reply.staleness},
                       {"refused_not_finite", client.refused_not_finite},
                       {"refused_shape", client.refused_shape},
                       {"refused_stale", client.refused_stale}});
  }
  all["clients"] = std::move(clients);
  return all;
}

json client_of(const ClientFacts& client) {
  json leases = json::array();
  for (const Portion& portion : client.leases) {
    leases.push_back({{"portion", portion.number},
                      {"epoch", portion.epoch},
                      {"begin", portion.begin},
                      {"end", portion.end}});
  }
  return {{"client", client.client},
          {"name", client.name},
          {"role", name_of(client.role)},
          {"replica", client.replica},
          {"member", client.member},
          {"leaving", client.leaving},
          {"heard_s", client.heard_s},
          {"samples_per_s", client.samples_per_s},
          {"samples", client.samples},
          {"steps", client.steps},
          {"leases", leases}};
}

}  // namespace

std::string status_json(const Facts& facts) {
  const JobPlan& plan = *facts.plan;
  json all;
  all["job"] = {{"id", facts.job},
                {"name", plan.name},
                {"model", facts.model},
                {"phase", phase(facts)},
                {"initialized", facts.initialized},
                {"ended", facts.progress.ended},
                {"shards", plan.shards},
                {"servers", plan.servers},
                {"backups", plan.backups},
                {"epochs", plan.epochs},
                {"samples", facts.samples},
                {"replicas", plan.replicas},
                {"coordinator_term", facts.term},
                {"coordinator_up_s", facts.up_s},
                {"cuts", facts.cuts}};
  all["progress"] = progress_of(facts);
  if (facts.batch) all["batch"] = batch_of(*facts.batch);
  all["shards"] = json::array();
  std::array<std::uint64_t, StalenessHistogram::kEntries> staleness{};
  for (const ShardFacts& shard : facts.shards) {
    all["shards"].push_back(shard_of(shard));
    for (std::size_t i = 0; shard.report && i < staleness.size(); ++i) {
      staleness[i] += shard.report->staleness.pushes[i];
    }
  }
  all["pushes_by_staleness"] = staleness;
  all["servers"] = json::array();
  for (const ServerFacts& server : facts.servers) {
    all["servers"].push_back({{"server", server.server},
                              {"address", server.address},
                              {"heard_s", server.heard_s ? json(*server.heard_s) : json()}});
  }
  all["clients"] = json::array();
  for (const ClientFacts& client : facts.clients) all["clients"].push_back(client_of(client));
  // Names may be any bytes.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace convoy::server::coordinator
