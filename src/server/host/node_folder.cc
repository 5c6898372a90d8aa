#include "server/host/node_folder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "convoy/base/error.h"
#include "server/log/segment.h"

namespace convoy::server::host {
namespace {

constexpr std::string_view kAside = "damaged-";
constexpr const char* kProbe = "partial-probe";

void remove_those_with(Disk& disk, std::string_view prefix) {
  for (const std::string& name : disk.list()) {
    if (name.starts_with(prefix)) disk.remove(name);
  }
}

}  // namespace

NodeFolder::NodeFolder(std::unique_ptr<Disk> disk, const FolderSettings& settings,
                       StateMachine& machine, std::vector<std::string>& lines)
    : disk_(std::move(disk)) {
  remove_those_with(*disk_, kProbe);
  identity_.emplace(*disk_, settings.owner, settings.boot, settings.durability, settings.random);
  LogOptions options;
  options.segment_bytes = settings.segment_bytes;
  options.salt = identity_->salt();
  const bool damaged = open_log(options, lines);
  if (!damaged) identity_->opened(*log_);
  snapshots_.emplace(*disk_);
  const auto newest = snapshots_->load_newest(machine, lines);
  loaded_ = newest.value_or(SnapshotId{});
  if (damaged) {
    begin_after(loaded_);
  } else if (newest) {
    const bool leads_on = log_->first_index() <= newest->index + 1 &&
                          newest->index <= log_->last_index() &&
                          log_->epoch_of(newest->index) == newest->epoch;
    if (!leads_on) begin_after(*newest);
  } else if (log_->first_index() > 1) {
    lines.push_back(disk_->path() + " has no snapshot that is whole, and its log begins with " +
                    std::to_string(log_->first_index()) +
                    ": this node begins anew, with what its peer has");
    identity_->set_whole(false);
    begin_after({});
  }
  const std::uint64_t before = log_->first_index() - 1;
  shape_ = replication::LogShape({log_->epoch_of(before), before});
  for (const Log::Item& item : log_->items()) shape_.append({item.epoch, item.bytes});
}

// Whether it had to be set aside.
bool NodeFolder::open_log(const LogOptions& options, std::vector<std::string>& lines) {
  try {
    log_ = std::make_unique<Log>(*disk_, options);
    return false;
  } catch (const DiskFull&) {
    throw;
  } catch (const Failure& error) {
    lines.push_back(std::string(error.what()) +
                    ": it is set aside, and this node goes on with what its peer has");
  }
  identity_->set_whole(false);
  // They stay until the node is whole again, should an operator want them.
  remove_those_with(*disk_, kAside);
  for (const std::string& name : disk_->list()) {
    if (first_of_segment(name)) disk_->rename(name, std::string(kAside) + name);
  }
  disk_->sync_names();
  log_ = std::make_unique<Log>(*disk_, options);
  return true;
}

void NodeFolder::begin_after(const SnapshotId& id) { log_->reset(id.index, id.epoch); }

void NodeFolder::set_whole() {
  if (!identity_->whole()) identity_->set_whole(true);
  remove_those_with(*disk_, kAside);
}

bool NodeFolder::has_room(std::uint64_t bytes) {
  const Bytes piece(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20));
  bool room = true;
  try {
    const auto file = disk_->create(kProbe);
    for (std::uint64_t written = 0; written < bytes; written += piece.size()) file->append(piece);
  } catch (const DiskFull&) {
    room = false;
  }
  remove_those_with(*disk_, kProbe);
  return room;
}

}  // namespace convoy::server::host
