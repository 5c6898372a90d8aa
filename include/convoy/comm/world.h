// All processes of one synchronous job.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/log.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

// Says who advances operations while the program computes.
enum class Progress {
  automatic,  // a thread if there is more than one rank and MPI allows it, the caller otherwise
  thread,     // a progress thread of the world; sleeps while nothing is in flight, and takes no
              // signals
  caller      // only calls into convoy::comm; right for MPI_THREAD_FUNNELED, or one rank per core
};

struct WorldOptions {
  // Says how long an operation may wait for its peers before the world counts as failed. Zero means
  // the environment variable CONVOY_TIMEOUT (seconds), or 300 s.
  std::chrono::duration<double> timeout{0};
  Progress progress = Progress::automatic;
  // Compares every call with the neighbors' before data moves, which takes one small message more
  // per call. The environment variable CONVOY_CHECK_CALLS=1 switches it on as well.
  bool check_calls = false;
  // Says which algorithm allreduce uses for which size, ranks and nodes, in front of the built-in
  // rules: "32KiB.. multicolor k=4 segment=256KiB" (the grammar: docs/communication.md), or "@FILE"
  // for rules in a file. Empty means the environment variable CONVOY_ALLREDUCE. It must say the
  // same on every rank; a World of ranks that differ, or of one that can't be read, is a UsageError
  // on all of them.
  std::string allreduce;
  // Makes reductions (allreduce, reduce_scatter) give the same bits for the same contributions,
  // whatever the algorithm and its segments, whichever rank has which of them, and wherever a
  // buffer is cut: floats are added as whole numbers (docs/communication.md says how, and what it
  // costs). Without it the bits are the same for the same world and algorithm. It must be the same
  // on every rank, as above. The environment variable CONVOY_REPRODUCIBLE=1 switches it on as well.
  bool reproducible = false;
};

// This is the world of this process. Make one at the start of main, pass it to what communicates,
// and let it go out of scope last: there it waits for the other ranks, and an exception that passes
// through it ends the whole job with one line that says which rank failed and why.
//
// Errors: Failure as Operation::wait says; a failed world is not usable again.
class World {
 public:
  // Joins the job that mpirun, srun or `convoy run` started, initializing MPI. The calling thread,
  // and those that it starts later, get short turns of the scheduler (docs/performance.md, "Threads
  // on a busy machine"). A program that was started alone gets a world of one rank; MPI and turns
  // are left alone. Throws UsageError when the program has initialized MPI itself (see adopt() in
  // convoy/comm/mpi.h).
  static World join(WorldOptions options = {});

  // Calls `body` on `ranks` threads of this process, each with a world of its own; returns when all
  // are done and throws the first rank's exception. For Torch-free code and tests.
  static void run_threads(int ranks, const std::function<void(World&)>& body,
                          WorldOptions options = {});

  // Makes a world over any transport; all of its ranks call this. Collective.
  World(std::unique_ptr<Transport> transport, WorldOptions options,
        std::function<void()> on_close = {});
  World(World&&) noexcept;
  World& operator=(World&&) = delete;
  ~World();

  int rank() const;
  int size() const;
  // Say which of the ranks of its host this one is, and how many there are.
  int local_rank() const;
  int local_size() const;
  // Says how many cores this rank has when all ranks of its host compute: each core that it may run
  // on is shared evenly by the ranks that may, too (bound to it, or not bound at all). At least 1.
  int cores() const;
  // Gives the host of a rank.
  const std::string& host(int rank) const;

  // Says how long operations were under way so far on this rank, one or more: from where the first
  // of them was started to where the last was found done. What is done in the call that starts it
  // takes none, nor does a blocking collective of ranks of one host that hardly waits. In seconds.
  double communication_seconds() const;

  // Gives the communicator of all ranks.
  const Communicator& communicator() const;
  // Writes lines on standard error that name this rank.
  const Log& log() const;
  const WorldOptions& options() const;

  // Ends the whole job after a line that names this rank and host and gives the reason. Thread
  // ranks throw Failure instead of exiting.
  [[noreturn]] void fail(const std::string& reason) const;

  // These are for programs that say themselves why a rank ends, as one of many. failure() gives why
  // the world has failed, as far as this rank knows; empty while it has not. What waits for peers
  // then throws a Failure with this text in it, and the rank that has found it said it on standard
  // error, or called give_up().
  std::string failure() const;
  // Makes this reason that of all ranks, unless the world has failed already. Says nothing on
  // standard error.
  void give_up(const std::string& reason) const;
  // Says whether another rank waits for this one in an operation, and would for ever, since this
  // one starts no other any more. Asks for up to `patience`, a second at least; returns early, with
  // false, where the world has failed.
  bool is_awaited(std::chrono::duration<double> patience) const;

  // Does what the destructor does on the way out, for programs that want its errors as exceptions:
  // finishes what is in flight, waits for all ranks to get here, and leaves MPI if join() had
  // entered it.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::comm
