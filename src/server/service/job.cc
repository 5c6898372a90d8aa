#include "server/service/job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "server/state/definition.h"

namespace convoy::server {
namespace {

constexpr std::size_t kMaxJobText = 1024;                      // bytes
constexpr std::size_t kMaxRecipe = std::size_t{16} << 20;      // bytes
constexpr std::uint64_t kMaxProcesses = 65536;                 // of a kind, and shards
constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 56;  // so that sums of them fit
constexpr std::uint64_t kMaxEpochs = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxLease = std::uint64_t{24} * 3600 * 1000;  // milliseconds

void in_range(const char* field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return;
  throw UsageError(std::string("plan of a job: ") + field + " is " + std::to_string(value) +
                   "; it can be " + std::to_string(least) + " to " + std::to_string(most));
}

void check_ranges(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
                  const char* what) {
  std::uint64_t before = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin >= end || begin < before) {
      throw UsageError(std::string(what) + ": samples " + std::to_string(begin) + " to " +
                       std::to_string(end) +
                       "; ranges ascend, share nothing and have at least one sample");
    }
    before = end;
  }
}

std::string text_of(const std::optional<optim::Rule>& rule) {
  if (!rule) return "none (a statistic)";
  return std::string(optim::name(*rule)) + " with lr " +
         std::to_string(optim::learning_rate(*rule));
}

std::string both(const std::string& what, const std::string& here, const std::string& there) {
  return what + " is " + here + " here, " + there + " there";
}

std::string both(const std::string& what, std::uint64_t here, std::uint64_t there) {
  return both(what, std::to_string(here), std::to_string(there));
}

}  // namespace

void check(const JobPlan& plan) {
  in_range("the length of its name", plan.name.size(), 0, kMaxJobText);
  in_range("the length of its recipe", plan.recipe.size(), 0, kMaxRecipe);
  in_range("shards", plan.shards, 1, kMaxProcesses);
  in_range("servers", plan.servers, servers_needed(plan), kMaxProcesses);
  in_range("replicas", plan.replicas, 1, kMaxProcesses);
  in_range("client_lease_ms", plan.client_lease_ms, 1, kMaxLease);
  in_range("server_lease_ms", plan.server_lease_ms, 1, kMaxLease);
  in_range("batch", plan.batch, 1, kMaxSamples);
  // A replica says in 32 bits how far it is.
  in_range("portion", plan.portion, 1, std::numeric_limits<std::uint32_t>::max());
  in_range("epochs", plan.epochs, 0, kMaxEpochs);
  in_range("samples", plan.samples, 0, kMaxSamples);
  in_range("warm_samples", plan.warm_samples, 0, kMaxSamples);
  in_range("first_epoch", plan.first_epoch, 0, kMaxEpochs);
  if (plan.portion % plan.batch != 0) {
    throw UsageError("plan of a job: a portion of " + std::to_string(plan.portion) +
                     " samples in batches of " + std::to_string(plan.batch) +
                     "; it has to be a multiple");
  }
  if (plan.staleness_bound == 0 && plan.portion != plan.batch) {
    throw UsageError("plan of a job: in rounds (a staleness bound of 0) a portion is one batch, " +
                     std::to_string(plan.batch) + " samples, not " + std::to_string(plan.portion));
  }
  if (!std::isfinite(plan.warm_seconds) || plan.warm_seconds < 0 || plan.warm_seconds > 1e9) {
    throw UsageError("plan of a job: warm_seconds is " + std::to_string(plan.warm_seconds) +
                     "; it can be 0 to 1e9");
  }
  check_ranges(plan.consumed, "plan of a job: consumed");
  if (!plan.consumed.empty()) in_range("consumed", plan.consumed.back().second, 1, kMaxSamples);
}

void check(const JobDescription& description) {
  check(std::span(description.vectors));
  if (description.epoch_samples > kMaxSamples) {
    throw UsageError("description of a job: an epoch of " +
                     std::to_string(description.epoch_samples) + " samples; at most " +
                     std::to_string(kMaxSamples) + " are accepted");
  }
  if (description.model.size() > kMaxJobText || description.data.size() > kMaxJobText) {
    throw UsageError("description of a job: model and data have at most " +
                     std::to_string(kMaxJobText) + " bytes each");
  }
}

void write(Writer& writer, const JobPlan& plan) {
  writer.text(plan.name);
  writer.text(plan.recipe);
  writer.u32(plan.shards);
  writer.u32(plan.servers);
  writer.boolean(plan.backups);
  writer.boolean(plan.log);
  writer.boolean(plan.synced);
  writer.u64(plan.staleness_bound);
  writer.boolean(plan.scale_by_staleness);
  writer.u32(plan.replicas);
  writer.u64(plan.client_lease_ms);
  writer.u64(plan.server_lease_ms);
  writer.u64(plan.batch);
  writer.u64(plan.portion);
  writer.u64(plan.epochs);
  writer.u64(plan.samples);
  writer.boolean(plan.drop_last);
  writer.u64(plan.warm_samples);
  writer.f64(plan.warm_seconds);
  writer.u64(plan.first_epoch);
  writer.u32(static_cast<std::uint32_t>(plan.consumed.size()));
  for (const auto& [begin, end] : plan.consumed) {
    writer.u64(begin);
    writer.u64(end);
  }
}

JobPlan read_job_plan(Reader& reader) {
  JobPlan plan;
  plan.name = reader.text(kMaxJobText);
  plan.recipe = reader.text(kMaxRecipe);
  plan.shards = reader.u32();
  plan.servers = reader.u32();
  plan.backups = reader.boolean();
  plan.log = reader.boolean();
  plan.synced = reader.boolean();
  plan.staleness_bound = reader.u64();
  plan.scale_by_staleness = reader.boolean();
  plan.replicas = reader.u32();
  plan.client_lease_ms = reader.u64();
  plan.server_lease_ms = reader.u64();
  plan.batch = reader.u64();
  plan.portion = reader.u64();
  plan.epochs = reader.u64();
  plan.samples = reader.u64();
  plan.drop_last = reader.boolean();
  plan.warm_samples = reader.u64();
  plan.warm_seconds = reader.f64();
  plan.first_epoch = reader.u64();
  const std::uint32_t ranges = reader.count(16);
  plan.consumed.reserve(ranges);
  for (std::uint32_t i = 0; i < ranges; ++i) {
    const std::uint64_t begin = reader.u64();
    plan.consumed.emplace_back(begin, reader.u64());
  }
  check(plan);
  return plan;
}

void write(Writer& writer, const JobDescription& description) {
  writer.text(description.model);
  writer.u64(description.epoch_samples);
  writer.text(description.data);
  writer.u32(static_cast<std::uint32_t>(description.vectors.size()));
  for (const VectorSpec& vector : description.vectors) {
    writer.text(vector.name);
    writer.u64(vector.elements);
    write(writer, vector.rule);
  }
}

JobDescription read_job_description(Reader& reader) {
  JobDescription description;
  description.model = reader.text(kMaxJobText);
  description.epoch_samples = reader.u64();
  description.data = reader.text(kMaxJobText);
  const std::uint32_t vectors = reader.count(4 + 1 + 8 + 1);
  description.vectors.reserve(vectors);
  for (std::uint32_t i = 0; i < vectors; ++i) {
    VectorSpec vector;
    vector.name = reader.text(kMaxVectorName);
    vector.elements = reader.u64();
    vector.rule = read_rule(reader);
    description.vectors.push_back(std::move(vector));
  }
  check(description);
  return description;
}

std::vector<std::uint64_t> servers_of(std::uint32_t shard, const JobPlan& plan) {
  const std::uint64_t servers = std::max<std::uint32_t>(plan.servers, 1);
  std::vector<std::uint64_t> numbers{shard % servers + 1};
  if (plan.backups && servers > 1) numbers.push_back((shard + 1) % servers + 1);
  return numbers;
}

std::uint32_t servers_needed(const JobPlan& plan) { return plan.backups ? 2 : 1; }

std::string difference(const JobDescription& here, const JobDescription& there) {
  if (here.vectors.size() != there.vectors.size()) {
    return both("the number of vectors", here.vectors.size(), there.vectors.size());
  }
  for (std::size_t i = 0; i < here.vectors.size(); ++i) {
    const VectorSpec& mine = here.vectors[i];
    const VectorSpec& theirs = there.vectors[i];
    if (mine.name != theirs.name) {
      return both("vector " + std::to_string(i), "'" + mine.name + "'", "'" + theirs.name + "'");
    }
    if (mine.elements != theirs.elements) {
      return both("the size of '" + mine.name + "'", mine.elements, theirs.elements);
    }
    if (mine.rule != theirs.rule) {
      const std::string text = text_of(mine.rule), other = text_of(theirs.rule);
      return text != other ? both("the rule of '" + mine.name + "'", text, other)
                           : "the rule of '" + mine.name + "', " + text +
                                 " on both sides, has other fields there";
    }
  }
  if (here.epoch_samples != there.epoch_samples) {
    return both("the number of samples in an epoch", here.epoch_samples, there.epoch_samples);
  }
  if (here.data != there.data)
    return both("the data", "'" + here.data + "'", "'" + there.data + "'");
  if (here.model != there.model) {
    return both("the model", "'" + here.model + "'", "'" + there.model + "'");
  }
  return {};
}

}  // namespace convoy::server
