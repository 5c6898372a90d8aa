// A coordinator's metrics in Prometheus' text format (docs/server-coordinator.md).
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "server/coordinator/facts.h"

namespace convoy::server::coordinator {
namespace {

// Bytes that follow a first one in UTF-8; -1: no character begins so.
int following(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xc2 && first < 0xe0) return 1;
  if (first >= 0xe0 && first < 0xf0) return 2;
  if (first >= 0xf0 && first < 0xf5) return 3;
  return -1;
}

// As the format wants it; what is no UTF-8 becomes '?'.
std::string escaped(std::string_view text) {
  std::string to;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char each = text[i];
    const int more = following(static_cast<unsigned char>(each));
    bool whole = more >= 0 && i + static_cast<std::size_t>(more) < text.size();
    for (int k = 1; whole && k <= more; ++k) {
      whole = (static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]) & 0xc0) == 0x80;
    }
    if (!whole) {
      to += '?';
    } else if (more > 0) {
      to += text.substr(i, static_cast<std::size_t>(more) + 1);
      i += static_cast<std::size_t>(more);
    } else if (each == '\n') {
      to += "\\n";
    } else {
      if (each == '"' || each == '\\') to += '\\';
      to += each;
    }
  }
  return to;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}
std::string number(std::uint64_t value) { return std::to_string(value); }

using Label = std::pair<std::string_view, std::string>;

class Text {
 public:
  // What follows is this metric, until the next call.
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + std::string(help) + "\n# TYPE " + name_ + " " +
             std::string(type) + "\n";
  }
  template <typename T>
  void value(T value, std::initializer_list<Label> labels = {}, std::string_view suffix = "") {
    text_ += name_;
    text_ += suffix;
    bool first = true;
    for (const auto& [label, content] : labels) {
      text_ += (first ? "{" : ",") + std::string(label) + "=\"" + escaped(content) + "\"";
      first = false;
    }
    text_ += std::string(first ? " " : "} ") + number(value) + "\n";
  }
  template <typename T>
  void single(std::string_view name, std::string_view type, std::string_view help, T one) {
    metric(name, type, help);
    value(one);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void write_job(Text& text, const Facts& facts) {
  const JobProgress& progress = facts.progress;
  const ReplicaReport& reported = progress.reported;
  text.metric("convoy_job_info", "gauge", "The job, by its labels.");
  text.value(std::uint64_t{1}, {{"job", facts.job}, {"name", facts.plan->name}});
  const auto flag = [](bool value) { return std::uint64_t{value ? 1u : 0u}; };
  text.single("convoy_job_initialized", "gauge", "Whether the parameters have values.",
              flag(facts.initialized));
  text.single("convoy_job_ended", "gauge", "Whether the job is over.",
              flag(!progress.ended.empty()));
  text.single("convoy_coordinator_term", "gauge", "Coordinators that the job has had.", facts.term);
  text.single("convoy_coordinator_up_seconds", "gauge", "Time since the coordinator began.",
              facts.up_s);
  text.single("convoy_epoch", "gauge", "The first epoch of which not everything is done.",
              progress.epoch);
  text.single("convoy_samples_done_total", "counter", "Samples that are done, each counted once.",
              progress.samples);
  text.single("convoy_samples_twice_total", "counter",
              "Samples that were used more than once, since a replica was lost.", progress.twice);
  text.single("convoy_portions_redone_total", "counter", "Portions that were given out again.",
              progress.redone);
  text.single("convoy_portions_held", "gauge", "Portions that replicas have now.",
              std::uint64_t{facts.handed_portions});
  text.single("convoy_samples_to_redo", "gauge", "Samples of lost replicas that nobody has yet.",
              facts.left_to_redo);
  text.single("convoy_replicas", "gauge", "Replicas that take part.",
              std::uint64_t{progress.replicas});
  text.single("convoy_steps_total", "counter", "Mini-batches that replicas have reported.",
              reported.steps);
  text.single("convoy_samples_reported_total", "counter", "Samples that replicas have reported.",
              reported.samples);
  text.single("convoy_bad_records_total", "counter", "Records that replicas could not read.",
              reported.skipped);
  if (reported.weight > 0) {
    text.single("convoy_loss_mean", "gauge", "Mean loss of all that replicas have reported.",
                reported.loss_sum / reported.weight);
  }
  text.metric("convoy_replica_seconds_total", "counter", "What replicas have spent their time on.");
  for (const auto& [activity, seconds] : {std::pair{"compute", reported.compute_s},
                                          {"fetch_wait", reported.fetch_wait_s},
                                          {"push_wait", reported.push_wait_s},
                                          {"data_wait", reported.data_wait_s}}) {
    text.value(seconds, {{"activity", activity}});
  }
}

void write_batch(Text& text, const BatchFacts& batch) {
  const optim::BatchIteration& last = batch.start.last;
  text.single("convoy_batch_iterations_total", "counter", "Iterations of the batch optimizer.",
              static_cast<std::uint64_t>(batch.start.state.iteration));
  text.single("convoy_batch_evaluations_total", "counter",
              "Evaluations of the whole batch that ended iterations have made.",
              static_cast<std::uint64_t>(batch.start.state.evaluations));
  if (batch.start.begun) {
    text.single("convoy_batch_loss", "gauge", "Loss over the batch, of the last iteration.",
                last.loss);
    text.single("convoy_batch_gradient_norm", "gauge", "Norm of the gradient there.",
                last.gradient_norm);
    text.single("convoy_batch_step", "gauge", "Length of its step, times the direction.",
                last.step);
  }
  text.single("convoy_batch_portions", "gauge", "Portions of a batch.",
              std::uint64_t{batch.portions});
  text.single("convoy_batch_evaluation_portions_done", "gauge",
              "Of these, those that are done of the evaluation at hand.", batch.counts.done);
  text.single("convoy_batch_portion_bytes_total", "counter",
              "Bytes of requests for portions, and of answers, of this coordinator.", batch.bytes);
  text.single("convoy_batch_method_bytes_total", "counter",
              "Bytes of the method's commands and questions to shards, and of answers, of this "
              "coordinator.",
              batch.method_bytes);
  text.metric("convoy_batch_replica_portions_total", "counter",
              "Portions that replicas had of this coordinator, by what became of them.");
  // A series for each replica that ever was would be too many: those that are gone have one.
  const auto portions = [&](const std::string& number, const std::string& name,
                            const PortionCounts& counts) {
    for (const auto& [became, count] : {std::pair{"done", counts.done},
                                        {"again", counts.again},
                                        {"copied", counts.copies},
                                        {"unused", counts.unused}}) {
      text.value(count, {{"replica", number}, {"name", name}, {"became", became}});
    }
  };
  for (const BatchReplica& each : batch.replicas) {
    if (each.here) portions(std::to_string(each.replica), each.name, each.portions);
  }
  portions("gone", "", batch.gone.portions);
  text.metric("convoy_batch_replica_busy_seconds_total", "counter",
              "Time that replicas had portions of this coordinator.");
  for (const BatchReplica& each : batch.replicas) {
    if (each.here)
      text.value(each.busy_s, {{"replica", std::to_string(each.replica)}, {"name", each.name}});
  }
  text.value(batch.gone.busy_s, {{"replica", "gone"}, {"name", ""}});
  text.single("convoy_batch_replicas_gone_total", "counter",
              "Replicas that have left this coordinator, or were taken for dead.",
              batch.gone.replicas);
}

// One metric of all shards that have said something.
template <typename Get>
void by_shard(Text& text, const Facts& facts, std::string_view name, std::string_view type,
              std::string_view help, Get get) {
  text.metric(name, type, help);
  for (const ShardFacts& shard : facts.shards) {
    if (!shard.report) continue;
    text.value(get(shard), {{"shard", std::to_string(shard.configuration.shard)}});
  }
}

void write_staleness(Text& text, const Facts& facts) {
  text.metric("convoy_push_staleness_versions", "histogram",
              "Versions that passed between fetch and push; the sum is of each bucket's least.");
  for (const ShardFacts& shard : facts.shards) {
    if (!shard.report) continue;
    const std::string number = std::to_string(shard.configuration.shard);
    const auto& pushes = shard.report->staleness.pushes;
    std::uint64_t count = 0;
    double sum = 0;
    for (std::size_t i = 0; i < pushes.size(); ++i) {
      const double least =
          i < 16 ? static_cast<double>(i) : std::ldexp(1, static_cast<int>(i) - 12);
      const double most = i < 16 ? least : 2 * least - 1;
      count += pushes[i];
      sum += static_cast<double>(pushes[i]) * least;
      if (i + 1 == pushes.size()) break;
      char le[32];
      std::snprintf(le, sizeof(le), "%.0f", most);
      text.value(count, {{"shard", number}, {"le", le}}, "_bucket");
    }
    text.value(count, {{"shard", number}, {"le", "+Inf"}}, "_bucket");
    text.value(sum, {{"shard", number}}, "_sum");
    text.value(count, {{"shard", number}}, "_count");
  }
}

void write_shards(Text& text, const Facts& facts) {
  text.metric("convoy_shard_epoch", "gauge", "Epoch of the shard's configuration.");
  for (const ShardFacts& shard : facts.shards) {
    text.value(shard.configuration.epoch, {{"shard", std::to_string(shard.configuration.shard)}});
  }
  text.metric("convoy_shard_server", "gauge", "The servers that have the shard, by their role.");
  for (const ShardFacts& shard : facts.shards) {
    const std::string number = std::to_string(shard.configuration.shard);
    text.value(shard.configuration.primary.node, {{"shard", number}, {"role", "primary"}});
    text.value(shard.configuration.backup.node, {{"shard", number}, {"role", "backup"}});
  }
  by_shard(text, facts, "convoy_shard_report_age_seconds", "gauge",
           "Time since the shard has said all of what follows.",
           [](const ShardFacts& shard) { return shard.age_s; });
  by_shard(text, facts, "convoy_shard_commands_total", "counter", "Commands applied.",
           [](const ShardFacts& shard) { return shard.report->applied; });
  by_shard(text, facts, "convoy_shard_backup_lag_commands", "gauge",
           "Commands that the backup has not acknowledged.",
           [](const ShardFacts& shard) { return shard.report->backup_lag; });
  by_shard(text, facts, "convoy_shard_log_bytes", "gauge", "Bytes of the log on the disk.",
           [](const ShardFacts& shard) { return shard.report->log_bytes; });
  by_shard(text, facts, "convoy_shard_memory_bytes", "gauge", "Bytes of the slices in memory.",
           [](const ShardFacts& shard) { return shard.report->memory_bytes; });
  if (facts.batch) {
    const auto of = [](const ShardFacts& shard) {
      return shard.report->vectors.value_or(calls::VectorReport{});
    };
    by_shard(text, facts, "convoy_shard_vectors", "gauge", "Vectors of a batch optimizer.",
             [&](const ShardFacts& shard) { return of(shard).vectors; });
    by_shard(text, facts, "convoy_shard_vector_bytes", "gauge", "Bytes of their slices in memory.",
             [&](const ShardFacts& shard) { return of(shard).vector_bytes; });
    by_shard(text, facts, "convoy_shard_group_bytes", "gauge",
             "Bytes of sums of portions that are not sealed.",
             [&](const ShardFacts& shard) { return of(shard).group_bytes; });
    by_shard(text, facts, "convoy_shard_portions_added", "gauge",
             "Portions of the evaluation at hand that the shard has.",
             [&](const ShardFacts& shard) { return of(shard).portions_added; });
  }
  by_shard(text, facts, "convoy_shard_rounds_total", "counter", "Rounds completed.",
           [](const ShardFacts& shard) { return shard.report->round; });
  by_shard(text, facts, "convoy_shard_version", "gauge",
           "The largest number of updates that a slice has had.", [](const ShardFacts& shard) {
             std::uint64_t most = 0;
             for (const std::uint64_t version : shard.report->versions) {
               most = std::max(most, version);
             }
             return most;
           });
  by_shard(text, facts, "convoy_shard_fetched_bytes_total", "counter",
           "Bytes that clients have fetched since the server began, without those of cuts.",
           [](const ShardFacts& shard) { return shard.report->fetched_bytes; });
  by_shard(text, facts, "convoy_shard_pushed_bytes_total", "counter",
           "Bytes that clients have pushed since the server began.",
           [](const ShardFacts& shard) { return shard.report->pushed_bytes; });
  text.metric("convoy_shard_refused_pushes", "gauge",
              "Pushes that were refused, of the clients that the shard knows now.");
  for (const ShardFacts& shard : facts.shards) {
    if (!shard.report) continue;
    std::uint64_t not_finite = 0, shape = 0, stale = 0;
    for (const ClientStatus& status : shard.report->clients) {
      not_finite += status.client.refused_not_finite;
      shape += status.client.refused_shape;
      stale += status.client.refused_stale;
    }
    const std::string number = std::to_string(shard.configuration.shard);
    text.value(not_finite, {{"shard", number}, {"reason", "not finite"}});
    text.value(shape, {{"shard", number}, {"reason", "wrong shape"}});
    text.value(stale, {{"shard", number}, {"reason", "stale"}});
  }
  write_staleness(text, facts);
}

// One metric of all clients.
template <typename Get>
void by_client(Text& text, const Facts& facts, std::string_view name, std::string_view type,
               std::string_view help, Get get) {
  text.metric(name, type, help);
  for (const ClientFacts& client : facts.clients) {
    text.value(get(client), {{"client", std::to_string(client.client)}, {"name", client.name}});
  }
}

void write_clients(Text& text, const Facts& facts) {
  by_client(text, facts, "convoy_client_samples_per_second", "gauge",
            "Samples a second, over the last 10 seconds.",
            [](const ClientFacts& client) { return client.samples_per_s; });
  by_client(text, facts, "convoy_client_samples_total", "counter",
            "Samples that the client has reported to this coordinator.",
            [](const ClientFacts& client) { return client.samples; });
  by_client(text, facts, "convoy_client_steps_total", "counter",
            "Mini-batches that the client has reported to this coordinator.",
            [](const ClientFacts& client) { return client.steps; });
  by_client(text, facts, "convoy_client_heard_seconds", "gauge",
            "Time since the client was heard of.",
            [](const ClientFacts& client) { return client.heard_s; });
  by_client(text, facts, "convoy_client_portions", "gauge", "Portions that the replica has now.",
            [](const ClientFacts& client) { return std::uint64_t{client.leases.size()}; });
  text.metric("convoy_server_heard_seconds", "gauge", "Time since the server was heard of.");
  for (const ServerFacts& server : facts.servers) {
    if (!server.heard_s) continue;
    text.value(*server.heard_s,
               {{"server", std::to_string(server.server)}, {"address", server.address}});
  }
}

}  // namespace

std::string metrics_text(const Facts& facts) {
  Text text;
  write_job(text, facts);
  if (facts.batch) write_batch(text, *facts.batch);
  write_shards(text, facts);
  write_clients(text, facts);
  return text.take();
}

}  // namespace convoy::server::coordinator
