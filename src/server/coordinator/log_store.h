// A StateStore in a folder of this machine.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "convoy/base/log.h"
#include "server/coordinator/key_state.h"
#include "server/coordinator/state_store.h"
#include "server/log/disk.h"
#include "server/log/log.h"
#include "server/log/snapshots.h"

namespace convoy::server::coordinator {

struct LogStoreOptions {
  std::uint64_t segment_bytes = std::uint64_t{1} << 20;
  // Of records since the last snapshot, at which the next one is made and the log is cut: what the
  // folder takes is bounded by some of these and the size of two snapshots.
  std::uint64_t snapshot_bytes = std::uint64_t{4} << 20;
};

// A log with snapshots (server/log), in a folder that is locked while this lives. What survives the
// process is written; what survives a power cut is synced, which settle() does for the rest.
class LogStore final : public StateStore {
 public:
  // Throws UsageError for a folder that isn't a coordinator's, Failure when it is locked, damaged
  // or can't be written.
  explicit LogStore(std::shared_ptr<Disk> disk, const convoy::Log& log = convoy::Log(),
                    const LogStoreOptions& options = {});
  LogStore(const std::string& folder, const convoy::Log& log)
      : LogStore(open_folder(folder), log) {}

  std::string where() const override { return disk_->path(); }
  std::uint64_t begin() override;
  std::optional<Value> read(const std::string& key) override;
  std::map<std::string, Value> list(const std::string& prefix) override;
  Changed change(std::uint64_t term, std::span<const Write> writes, Survives survives) override;
  Changed settle() override;

 private:
  void append(std::uint64_t term, std::span<const Write> writes);
  void snapshot_if_due();
  Changed refused(const std::exception& error);

  const std::shared_ptr<Disk> disk_;
  const convoy::Log log_lines_;
  const LogStoreOptions options_;
  std::mutex mutex_;
  std::unique_ptr<server::Log> log_;
  std::unique_ptr<Snapshots> snapshots_;
  KeyState state_;
  std::uint64_t since_snapshot_ = 0;  // bytes
  bool dirty_ = false;                // something isn't synced
  std::string broken_;                // why nothing can be written any more
};

}  // namespace convoy::server::coordinator
