// What replication keeps the same on several nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "server/wire/writer.h"

namespace convoy::server {

// Takes the bytes of a snapshot, in pieces of any size.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;  // throws Failure when it can't
};

// Gives them back.
class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;
  // The next bytes, as many as asked for. Throws Failure when they are damaged or not there.
  virtual void read(std::span<std::byte> bytes) = 0;
};

// A state as it was after one command, while the machine goes on. May be saved from any thread, by
// several at once, and outlive the machine.
class StateImage {
 public:
  virtual ~StateImage() = default;
  virtual std::uint64_t index() const = 0;  // of the last command that it holds
  virtual void save(SnapshotSink& sink) const = 0;
};

// Changed by commands alone: two machines that were given the same commands in the same order hold
// the same bytes, whatever the time, the machine or the number of threads. apply(), image() and
// load() are called by one thread at a time.
class StateMachine {
 public:
  virtual ~StateMachine() = default;

  // Applies command number `index` and returns the reply to whoever gave it. Commands are numbered
  // without gaps; what a command holds is never an error here: one that makes no sense changes
  // nothing and its reply says so. Throws UsageError when `index` isn't the one after applied().
  virtual Bytes apply(std::uint64_t index, std::span<const std::byte> command) = 0;

  // The index of the last command applied; 0 before the first.
  virtual std::uint64_t applied() const = 0;

  // The state now. Quick however large the state is: nothing is copied before it changes.
  virtual std::shared_ptr<const StateImage> image() const = 0;

  // Becomes what was saved. Throws Failure, or UsageError for bytes that no image saved, and is
  // then as it was before.
  virtual void load(SnapshotSource& source) = 0;

  void save(SnapshotSink& sink) const { image()->save(sink); }
};

}  // namespace convoy::server
