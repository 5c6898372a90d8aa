// What this library keeps for the whole process, as MPI itself does.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "preload/counterpart.h"
#include "preload/settings.h"

namespace convoy::preload {

// All functions may be called from any thread that may call MPI.
class Process {
 public:
  // Null while MPI is not initialized, once MPI_Finalize has begun, and where the program's MPI is
  // of another kind.
  static Process* current();
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
  const std::string obstacle_;        // why nothing can be taken over; empty if it can
  int keyval_ = MPI_KEYVAL_INVALID;   // the attribute by which a communicator has its counterpart
  std::mutex mutex_;                  // of the set; no call of MPI is made under it
  std::set<MPI_Comm> communicators_;  // that have a counterpart
  std::atomic<std::uint64_t> taken_ = 0, taken_bytes_ = 0, left_by_rule_ = 0, too_early_ = 0,
                             left_ = 0;
};

}  // namespace convoy::preload
