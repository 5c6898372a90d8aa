#include "server/coordinator/log_store.h"

#include <random>

#include "convoy/base/error.h"
#include "server/log/identity.h"

namespace convoy::server::coordinator {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Changed StateStore::compare_and_set(std::uint64_t term, const std::string& key,
                                    std::uint64_t expected, Bytes value, Survives survives) {
  const Write write{key, expected, std::move(value)};
  return change(term, std::span(&write, 1), survives);
}

LogStore::LogStore(std::shared_ptr<Disk> disk, const convoy::Log& log,
                   const LogStoreOptions& options)
    : disk_(std::move(disk)), log_lines_(log), options_(options) {
  // Whose folder it is, and the salt of its log.
  const FolderIdentity identity(*disk_, {"coordinator", 0, "coordinator"}, boot_id(),
                                server::Durability::synced, random_number());
  snapshots_ = std::make_unique<Snapshots>(*disk_);
  log_ = std::make_unique<server::Log>(*disk_, LogOptions{options.segment_bytes, identity.salt()});
  std::vector<std::string> damaged;
  const auto loaded = snapshots_->load_newest(state_, damaged);
  for (const std::string& line : damaged) log_lines_.warning(line);
  if (log_->first_index() > state_.applied() + 1) {
    throw Failure("the coordinator's folder " + disk_->path() + " lacks records " +
                  std::to_string(state_.applied() + 1) + " to " +
                  std::to_string(log_->first_index() - 1) +
                  (damaged.empty() ? "" : "; " + damaged.front()));
  }
  if (loaded && log_->last_index() < loaded->index) log_->reset(loaded->index, loaded->epoch);
  while (state_.applied() < log_->last_index()) {
    for (const LogRecord& record : log_->read(state_.applied() + 1, std::uint64_t{1} << 20)) {
      state_.apply(record.index, record.bytes);
      since_snapshot_ += record.bytes.size();
    }
  }
  dirty_ = log_->synced_index() < log_->last_index();
}

void LogStore::append(std::uint64_t term, std::span<const Write> writes) {
  const Bytes record = encode(term, writes);
  log_->append(state_.applied() + 1, term, record);
  state_.apply(state_.applied() + 1, record);
  since_snapshot_ += record.size();
  dirty_ = true;
}

std::uint64_t LogStore::begin() {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) throw Failure(broken_);
  append(state_.term() + 1, {});
  log_->sync();
  return state_.term();
}

std::optional<Value> LogStore::read(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = state_.keys().find(key);
  return found == state_.keys().end() ? std::nullopt : std::optional(found->second);
}

std::map<std::string, Value> LogStore::list(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Value> found;
  for (auto at = state_.keys().lower_bound(prefix);
       at != state_.keys().end() && at->first.starts_with(prefix); ++at) {
    found.insert(*at);
  }
  return found;
}

Changed LogStore::change(std::uint64_t term, std::span<const Write> writes, Survives survives) {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) return {Changed::Kind::broken, 0, broken_};
  if (term != state_.term()) {
    return {Changed::Kind::fenced, 0,
            "term " + std::to_string(state_.term()) + " has begun, this one is " +
                std::to_string(term)};
  }
  for (const Write& write : writes) {
    const auto found = state_.keys().find(write.key);
    const std::uint64_t revision = found == state_.keys().end() ? 0 : found->second.revision;
    if (write.expected && *write.expected != revision) {
      return {Changed::Kind::conflict, 0,
              "'" + write.key + "' has revision " + std::to_string(revision) + ", not " +
                  std::to_string(*write.expected)};
    }
  }
  try {
    append(term, writes);
  } catch (const DiskFull& error) {  // the log is as it was
    return {Changed::Kind::unreached, 0, error.what()};
  } catch (const std::exception& error) {
    return refused(error);
  }
  const std::uint64_t revision = state_.applied();
  try {
    if (survives == Survives::power) log_->sync();
  } catch (const std::exception& error) {
    return refused(error);
  }
  snapshot_if_due();
  return {Changed::Kind::done, revision, {}};
}

Changed LogStore::settle() {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) return {Changed::Kind::broken, 0, broken_};
  if (!dirty_) return {};
  try {
    log_->sync();
    dirty_ = false;
  } catch (const std::exception& error) {
    return refused(error);
  }
  return {};
}

// After a sync that failed nobody knows what is on the disk; a new process reads it.
Changed LogStore::refused(const std::exception& error) {
  broken_ = error.what();
  return {Changed::Kind::broken, 0, broken_};
}

void LogStore::snapshot_if_due() {
  if (since_snapshot_ < options_.snapshot_bytes) return;
  since_snapshot_ = 0;  // also when it fails: not again with every change
  try {
    log_->sync();
    dirty_ = false;
    const SnapshotId id{state_.applied(), log_->last_epoch()};
    snapshots_->write(id, [&](SnapshotSink& sink) { state_.save(sink); });
    snapshots_->keep_newest(2);
    log_->cut_before(snapshots_->list().front().index + 1);
  } catch (const std::exception& error) {  // the log has everything
    log_lines_.warning("no snapshot of the coordinator's state: " + std::string(error.what()));
  }
}

}  // namespace convoy::server::coordinator
