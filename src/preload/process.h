// What this library keeps for the whole process, as MPI itself does.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "preload/counterpart.h"
#include "preload/presence.h"
#include "preload/settings.h"

namespace convoy::preload {

// While it lives, its thread is freeing this communicator. What the program calls on it meanwhile,
// from the delete callbacks of its attributes, is MPI's on all ranks: the counterpart may be gone
// already, and the communicator can get no other.
class BeingFreed {
 public:
  explicit BeingFreed(MPI_Comm comm) : comm_(comm), outer_(innermost_) { innermost_ = this; }
  ~BeingFreed() { innermost_ = outer_; }
  BeingFreed(const BeingFreed&) = delete;
  static bool has(MPI_Comm comm);

 private:
  const MPI_Comm comm_;
  const BeingFreed* const outer_;  // a callback may free another one
  inline static thread_local const BeingFreed* innermost_ = nullptr;
};

// All functions may be called from any thread that may call MPI.
class Process {
 public:
  // Within MPI_Init, once MPI is initialized and of the kind of this library. Throws Failure.
  static void begin();
  // Null unless begun, and once MPI_Finalize has begun.
  static Process* current() { return state_ == State::working ? &instance() : nullptr; }
  // Gives everything back to MPI, which is about to be finalized.
  static void close();

  // The counterpart of a communicator; null for those that Convoy does nothing for. The first call
  // for a communicator is collective over it.
  Counterpart* counterpart(MPI_Comm comm);

  void count(Outcome outcome, const Arguments& arguments);

 private:
  enum class State { waiting, working, off };

  Process();
  static Process& instance();
  // MPI calls it when a communicator is freed.
  static int forget(MPI_Comm comm, int keyval, void* counterpart, void* process);
  void report() const;

  inline static std::atomic<State> state_ = State::waiting;

  const Settings settings_;
  const std::optional<Absence> absence_;  // of a rank without this library; known to all or to none
  const std::string obstacle_;            // why nothing can be taken over here; empty if it can
  int keyval_ = MPI_KEYVAL_INVALID;  // the attribute by which a communicator has its counterpart
  Setbacks setbacks_;
  std::atomic<std::uint32_t> counterparts_ = 0;  // ever made here
  std::mutex mutex_;                             // of the map; no call of MPI is made under it
  // What has an engine to be freed, in an order that is the same on all ranks.
  std::map<Counterpart::Id, MPI_Comm> communicators_;
  std::atomic<std::uint64_t> taken_ = 0, taken_bytes_ = 0, left_by_rule_ = 0, too_early_ = 0,
                             left_ = 0;
};

}  // namespace convoy::preload
