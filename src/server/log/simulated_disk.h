// A disk in memory that fails as real ones do, for tests and the simulation of replication.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/log/disk.h"
#include "server/wire/writer.h"

namespace convoy::server {

// Thread-safe. Files opened before a power cut are closed by it: every call on them throws Failure.
class SimulatedDisk final : public Disk {
 public:
  SimulatedDisk();
  ~SimulatedDisk() override;

  // Takes away what was not synced, as a power cut may: of every file any of its sectors (512
  // bytes) that were written since its last sync are old again, and it may be shorter; of the names
  // that were changed since sync_names() the last ones. Which, the seed says.
  void power_cut(std::uint64_t seed);
  // The size of all files together that the disk has room for; writes up to it succeed.
  void set_capacity(std::uint64_t bytes);
  // From now on every sync throws.
  void fail_syncs();
  // Changes one byte, on the disk too.
  void flip(const std::string& name, std::uint64_t offset, std::uint8_t mask);
  // Puts a file there, or replaces it, synced.
  void put(const std::string& name, std::span<const std::byte> bytes);
  Bytes get(const std::string& name) const;
  std::uint64_t used() const;
  // Bytes that were read at once at most, since the disk was made.
  std::uint64_t largest_read() const;

  std::vector<std::string> list() const override;
  std::unique_ptr<DiskFile> create(const std::string& name) override;
  std::unique_ptr<DiskFile> open(const std::string& name) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& name) override;
  void sync_names() override;
  std::string path() const override { return "(simulated disk)"; }

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace convoy::server
