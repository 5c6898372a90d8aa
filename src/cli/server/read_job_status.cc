#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/server/status_view.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using nlohmann::json;

// What an older or newer coordinator doesn't say is as it is without.
template <class T>
void take(const json& from, const char* key, T& value) {
  const auto found = from.find(key);
  if (found != from.end() && !found->is_null()) found->get_to(value);
}

std::string portion_of(const json& client) {
  const auto leases = client.find("leases");
  if (leases == client.end() || leases->empty()) return "";
  const json& one = leases->front();
  const std::string more = leases->size() > 1 ? " +" + std::to_string(leases->size() - 1) : "";
  return std::to_string(one.at("epoch").get<std::uint64_t>() + 1) + ": " +
         std::to_string(one.at("begin").get<std::uint64_t>()) + "-" +
         std::to_string(one.at("end").get<std::uint64_t>()) + more;
}

void read_job(const json& job, JobStatus& s) {
  take(job, "name", s.name);
  take(job, "model", s.model);
  take(job, "ended", s.ended);
  take(job, "phase", s.phase);
  take(job, "backups", s.backups);
  take(job, "replicas", s.replicas_expected);
  take(job, "initialized", s.initialized);
  take(job, "epochs", s.epochs);
  take(job, "samples", s.samples_wanted);
}

void read_progress(const json& progress, JobStatus& s) {
  std::uint64_t epoch_samples = 0;
  take(progress, "epoch", s.epoch);
  take(progress, "samples", s.samples);
  take(progress, "samples_twice", s.twice);
  take(progress, "portions_redone", s.redone);
  take(progress, "portions_held", s.outstanding);
  take(progress, "epoch_samples", epoch_samples);
  if (s.samples_wanted == 0) s.samples_wanted = s.epochs * epoch_samples;
}

PortionStatus portions_in(const json& from) {
  PortionStatus portions;
  take(from, "portions_done", portions.done);
  take(from, "portions_again", portions.again);
  take(from, "portions_copied", portions.copied);
  take(from, "portions_unused", portions.unused);
  return portions;
}

BatchStatus batch_in(const json& from) {
  BatchStatus batch;
  take(from, "iteration", batch.iteration);
  batch.begun = !from.value("loss", json()).is_null();
  take(from, "loss", batch.loss);
  take(from, "gradient_norm", batch.gradient_norm);
  take(from, "step", batch.step);
  take(from, "evaluations", batch.evaluations);
  take(from, "evaluation", batch.evaluation);
  take(from, "portions", batch.portions);
  take(from, "over", batch.over);
  batch.now = portions_in(from);
  for (const json& each : from.value("replicas", json::array())) {
    BatchReplicaStatus replica;
    bool here = true;
    take(each, "replica", replica.replica);
    take(each, "name", replica.name);
    take(each, "here", here);
    take(each, "busy_s", replica.busy_s);
    replica.portions = portions_in(each);
    if (here) batch.replicas.push_back(std::move(replica));  // an older coordinator names all
  }
  if (const auto gone = from.find("gone"); gone != from.end()) {
    take(*gone, "replicas", batch.gone);
    take(*gone, "busy_s", batch.gone_busy_s);
    batch.gone_portions = portions_in(*gone);
  }
  return batch;
}

// `staleness`: of each client's last push, the largest of the shards'.
ShardStatus shard_of(const json& from, std::map<std::uint64_t, std::uint64_t>& staleness) {
  ShardStatus shard;
  take(from, "shard", shard.shard);
  take(from, "primary", shard.primary);
  take(from, "backup", shard.backup);
  take(from, "epoch", shard.epoch);
  take(from, "applied", shard.applied);
  take(from, "backup_lag", shard.lag);
  take(from, "memory_bytes", shard.memory_bytes);
  take(from, "log_bytes", shard.log_bytes);
  take(from, "vectors", shard.vectors);
  take(from, "vector_bytes", shard.vector_bytes);
  take(from, "group_bytes", shard.group_bytes);
  take(from, "portions_added", shard.portions);
  // Reports come every second.
  constexpr double kOld_s = 5;
  double age_s = kOld_s + 1;
  take(from, "report_age_s", age_s);
  shard.answers = age_s <= kOld_s;
  for (const json& client : from.value("clients", json::array())) {
    std::uint64_t id = 0, behind = 0;
    take(client, "client", id);
    take(client, "staleness", behind);
    staleness[id] = std::max(staleness[id], behind);
  }
  return shard;
}

ReplicaStatus replica_of(const json& from,
                         const std::map<std::uint64_t, std::uint64_t>& staleness) {
  ReplicaStatus replica;
  std::uint64_t id = 0;
  take(from, "client", id);
  take(from, "name", replica.name);
  take(from, "role", replica.role);
  take(from, "samples_per_s", replica.samples_per_s);
  take(from, "samples", replica.samples);
  take(from, "heard_s", replica.heard_s);
  replica.portion = portion_of(from);
  if (const auto found = staleness.find(id); found != staleness.end())
    replica.staleness = found->second;
  return replica;
}

}  // namespace

JobStatus read_job_status(const std::string& text) {
  try {
    const json all = json::parse(text);
    JobStatus s;
    read_job(all.at("job"), s);
    read_progress(all.at("progress"), s);
    std::map<std::uint64_t, std::uint64_t> staleness;
    for (const json& shard : all.at("shards")) s.shards.push_back(shard_of(shard, staleness));
    for (const json& server : all.at("servers")) {
      ServerStatus& one = s.servers.emplace_back();
      take(server, "server", one.server);
      take(server, "address", one.address);
      take(server, "heard_s", one.heard_s);
    }
    for (const json& client : all.at("clients")) {
      s.replicas.push_back(replica_of(client, staleness));
      s.samples_per_s += s.replicas.back().samples_per_s;
    }
    take(all, "pushes_by_staleness", s.staleness);
    if (const auto batch = all.find("batch"); batch != all.end()) s.batch = batch_in(*batch);
    return s;
  } catch (const json::exception& error) {
    throw Failure(std::string("the coordinator's status is not what this version reads: ") +
                  error.what());
  }
}

}  // namespace convoy::cli
