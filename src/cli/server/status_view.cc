#include "cli/server/status_view.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>

#include "cli/counts.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr std::size_t kLongestName = 16;
// That a backup may lack and count as ready: what is on its way while replicas push.
constexpr std::uint64_t kReadyLag = 1000;
constexpr double kReadyHeard_s = 10;

std::string format(const char* form, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(text, sizeof text, form, arguments);
  va_end(arguments);
  return text;
}

std::string count(std::uint64_t number) {
  return with_commas(
      static_cast<std::int64_t>(std::min<std::uint64_t>(number, std::uint64_t{1} << 62)));
}

std::string cut(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 1) + "~";
}

std::string heard(double seconds) {
  if (seconds < 0) return "never";
  return seconds < 1 ? "now" : format_seconds(seconds);
}

std::string server(std::uint64_t number) { return number == 0 ? "-" : std::to_string(number); }

std::string rate(double per_s) {
  return per_s >= 1000 ? count(static_cast<std::uint64_t>(per_s)) : format("%.1f", per_s);
}

std::string state_of(const JobStatus& s) { return s.ended.empty() ? s.phase : "ended: " + s.ended; }

std::string progress_of(const JobStatus& s) {
  // When all is done the next epoch would be one more.
  const std::uint64_t epoch = s.epochs > 0 ? std::min(s.epoch + 1, s.epochs) : s.epoch + 1;
  std::string text = "epoch " + std::to_string(epoch);
  if (s.epochs > 0) text += " of " + std::to_string(s.epochs);
  if (s.samples_wanted > 0) {
    const double part = static_cast<double>(s.samples) / static_cast<double>(s.samples_wanted);
    text += format("   %.0f%%", 100 * std::min(part, 1.0));
  }
  return text + "   " + rate(s.samples_per_s) + " samples/s";
}

std::string shards_of(const JobStatus& s) {
  std::string text = format("%5s %8s %7s %6s %13s %7s %10s %10s\n", "shard", "primary", "backup",
                            "epoch", "applied", "lag", "memory", "log");
  for (const ShardStatus& shard : s.shards) {
    text += format("%5u %8s %7s %6s", shard.shard, server(shard.primary).c_str(),
                   server(shard.backup).c_str(), count(shard.epoch).c_str());
    text += shard.answers ? format(" %13s %7s %10s %10s\n", count(shard.applied).c_str(),
                                   shard.backup == 0 ? "-" : count(shard.lag).c_str(),
                                   format_bytes(shard.memory_bytes).c_str(),
                                   format_bytes(shard.log_bytes).c_str())
                          : "  does not answer\n";
  }
  return text;
}

std::string servers_of(const JobStatus& s, int columns) {
  std::string text = format("%-6s %10s  %s\n", "server", "heard", "address");
  for (const ServerStatus& one : s.servers)
    text += format(
        "%6s %10s  %s\n", server(one.server).c_str(), heard(one.heard_s).c_str(),
        one.address.empty()
            ? "-"
            : cut(one.address, static_cast<std::size_t>(std::max(columns - 20, 10))).c_str());
  return text;
}

std::string replicas_of(const JobStatus& s, int columns) {
  if (s.replicas.empty()) return "no replica has joined yet\n";
  std::string text = format("%-16s %10s %11s %9s %7s  %s\n", "replica", "samples/s", "samples",
                            "staleness", "heard", "epoch: portion");
  for (const ReplicaStatus& one : s.replicas) {
    const std::string name = cut(one.name, kLongestName);
    if (one.role != "replica") {
      text += format("%-16s %10s %11s %9s %7s  %s\n", name.c_str(), "", "", "",
                     heard(one.heard_s).c_str(), one.role.c_str());
      continue;
    }
    const auto room = static_cast<std::size_t>(std::max(columns - 59, 10));
    text +=
        format("%-16s %10s %11s %9s %7s  %s\n", name.c_str(), rate(one.samples_per_s).c_str(),
               count(one.samples).c_str(), count(one.staleness).c_str(), heard(one.heard_s).c_str(),
               one.portion.empty() ? "-" : cut(one.portion, room).c_str());
  }
  return text;
}

// What stands in the place of epochs and samples in a batch optimization.
std::string optimization_of(const BatchStatus& batch) {
  std::string text = "iteration " + count(batch.iteration);
  if (batch.begun)
    text += format("   loss %.6g   gradient norm %.3g   step %.3g", batch.loss, batch.gradient_norm,
                   batch.step);
  return text;
}

std::string portions_of(const BatchStatus& batch) {
  std::string text = "evaluation " + (batch.evaluation.empty() ? "-" : batch.evaluation) + "   " +
                     count(batch.now.done) + " of " + count(batch.portions) + " portions, " +
                     count(batch.now.again) + " again, " + count(batch.now.copied) + " copies, " +
                     count(batch.now.unused) + " unused\n";
  if (!batch.over.empty()) text += "over: " + batch.over + "\n";
  return text;
}

std::string vectors_of(const JobStatus& s) {
  std::string text =
      format("%5s %8s %10s %13s %9s\n", "shard", "vectors", "of memory", "group sums", "portions");
  for (const ShardStatus& shard : s.shards) {
    if (shard.answers)
      text += format("%5u %8s %10s %13s %9s\n", shard.shard, count(shard.vectors).c_str(),
                     format_bytes(shard.vector_bytes).c_str(),
                     format_bytes(shard.group_bytes).c_str(), count(shard.portions).c_str());
  }
  return text;
}

std::string batch_replicas_of(const JobStatus& s) {
  std::string text = format("%-16s %9s %9s %9s %9s %11s\n", "replica", "portions", "again",
                            "copies", "unused", "busy");
  const auto add = [&text](const std::string& name, const PortionStatus& portions, double busy_s) {
    text += format("%-16s %9s %9s %9s %9s %11s\n", cut(name, kLongestName).c_str(),
                   count(portions.done).c_str(), count(portions.again).c_str(),
                   count(portions.copied).c_str(), count(portions.unused).c_str(),
                   format_seconds(busy_s).c_str());
  };
  for (const BatchReplicaStatus& one : s.batch->replicas) add(one.name, one.portions, one.busy_s);
  if (s.batch->gone > 0)
    add(count(s.batch->gone) + " gone", s.batch->gone_portions, s.batch->gone_busy_s);
  if (s.batch->replicas.empty() && s.batch->gone == 0)
    text = "no replica has asked for portions yet\n";
  return text + "evaluations  " + count(s.batch->evaluations) + " in all iterations\n";
}

std::string samples_of(const JobStatus& s) {
  std::string text = "samples    " + count(s.samples);
  if (s.samples_wanted > 0) text += " of " + count(s.samples_wanted);
  text += ", " + count(s.twice) + " used twice\n";
  return text + "portions   " + count(s.outstanding) + " handed out, " + count(s.redone) +
         " redone\n";
}

// Entry i < 16 counts staleness i, the others 2^k to 2^(k+1) - 1.
std::string staleness_of(const std::vector<std::uint64_t>& pushes) {
  constexpr std::size_t kSingle = 4;
  const auto all = std::accumulate(pushes.begin(), pushes.end(), std::uint64_t{0});
  if (all == 0) return "";
  const auto part = [&](std::size_t begin, std::size_t end) {
    std::uint64_t sum = 0;
    for (std::size_t i = begin; i < std::min(end, pushes.size()); ++i) sum += pushes[i];
    return 100.0 * static_cast<double>(sum) / static_cast<double>(all);
  };
  std::string text = "staleness ";
  for (std::size_t i = 0; i < kSingle; ++i) text += format(" %zu: %.0f%% ", i, part(i, i + 1));
  return text + format(" 4-15: %.0f%%  16+: %.0f%%  (%s pushes)\n", part(kSingle, 16),
                       part(16, pushes.size()), count(all).c_str());
}

}  // namespace

std::string status_table(const JobStatus& s, int columns) {
  const std::string title = s.name + (s.model.empty() ? "" : " (" + s.model + ")");
  std::string text =
      title + ", " + state_of(s) + "\n" + (s.batch ? optimization_of(*s.batch) : progress_of(s)) +
      "   " +
      std::to_string(std::count_if(s.replicas.begin(), s.replicas.end(),
                                   [](const auto& r) { return r.role == "replica"; })) +
      " of " + std::to_string(s.replicas_expected) + " replicas\n" +
      (s.batch ? portions_of(*s.batch) : "") + "\n";
  if (s.batch)
    return text + shards_of(s) + "\n" + vectors_of(s) + "\n" + servers_of(s, columns) + "\n" +
           batch_replicas_of(s);
  text += shards_of(s) + "\n" + servers_of(s, columns) + "\n" + replicas_of(s, columns) + "\n";
  return text + samples_of(s) + staleness_of(s.staleness);
}

std::string not_ready(const JobStatus& s, const std::string& what) {
  if (what == "coordinator") return "";
  constexpr const char* kServer = "server-";
  std::uint64_t number = 0;
  if (what.starts_with(kServer)) number = std::strtoull(what.c_str() + 7, nullptr, 10);
  if (what != "job" && number == 0)
    throw UsageError("--ready " + what + ": it can be job, coordinator or server-1, server-2, ...");
  if (number > 0) {
    const auto found = std::find_if(s.servers.begin(), s.servers.end(),
                                    [&](const ServerStatus& one) { return one.server == number; });
    if (found == s.servers.end() || found->address.empty()) return what + " was never heard of";
    if (found->heard_s < 0 || found->heard_s > kReadyHeard_s)
      return what + " was last heard " + heard(found->heard_s) + " ago";
  }
  for (const ShardStatus& shard : s.shards) {
    const std::string name = "shard " + std::to_string(shard.shard);
    if (shard.primary == 0) return name + " has no primary";
    if (!shard.answers) return name + " does not answer";
    if (number > 0 && s.backups && shard.backup == 0) return name + " has no backup";
    if (number > 0 && shard.lag > kReadyLag)
      return "the backup of " + name + " lacks " + count(shard.lag) + " commands";
  }
  if (what == "job" && !s.initialized) return "the parameters have no values yet";
  return "";
}

}  // namespace convoy::cli
