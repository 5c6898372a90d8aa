// The files of one node of a parameter server, and how they fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::server {

// No room for what was to be written: the node can go on with what it has, and write again when
// there is room.
class DiskFull : public Failure {
 public:
  using Failure::Failure;
};

// An open file. read() and sync() may be called from any thread, also while another one writes; all
// others by one thread at a time. Everything throws Failure naming the file and what the system
// said, DiskFull when that is "no space".
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  virtual std::uint64_t size() const = 0;
  // As many bytes as asked for; Failure when the file ends before.
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  // Writes `first`, then `second`, at the file's end, and is done when others see them (not when
  // they are on the disk). After an exception some of them may be written.
  virtual void append(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  void append(std::span<const std::byte> bytes) { append(bytes, {}); }
  virtual void truncate(std::uint64_t size) = 0;
  // Waits until what was written before the call, and its length, would survive a power cut.
  virtual void sync() = 0;
};

// The files of a folder, by name, without folders in it. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual std::vector<std::string> list() const = 0;  // names, ascending
  // Makes a new file, empty; Failure when there is one.
  virtual std::unique_ptr<DiskFile> create(const std::string& name) = 0;
  virtual std::unique_ptr<DiskFile> open(const std::string& name) = 0;
  // `to` may be there and is replaced in one step.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& name) = 0;
  // Waits until names that were created, renamed or removed before would survive a power cut.
  virtual void sync_names() = 0;
  // The folder, for messages.
  virtual std::string path() const = 0;
};

// A folder, which is made when there is none, and locked while this object lives. Throws Failure
// when another process (or another such object of this one) has it locked.
std::unique_ptr<Disk> open_folder(const std::string& path);

}  // namespace convoy::server
