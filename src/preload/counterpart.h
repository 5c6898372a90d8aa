// Convoy's side of one communicator of the program's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "comm/world/group.h"
#include "preload/reduction.h"
#include "preload/settings.h"

namespace convoy::preload {

// One call of MPI_Allreduce.
struct Arguments {
  const void* send = nullptr;  // or MPI_IN_PLACE
  void* receive = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
};

enum class Outcome {
  taken,
  left_by_rule,  // by its size, ranks or hosts
  too_early,     // before an engine is worth its making
  left           // by its type, operation, arguments or communicator
};

// Engines that got no shared memory although they have ranks on one host. While that lasts, trying
// it for every communicator that comes and goes costs more than it gives. Of the process; any
// thread.
class Setbacks {
 public:
  // Whether to try the next one: not the first after a failure, the next two after another, and so
  // on, up to 512.
  bool may_try();
  void note(bool failed);

 private:
  std::mutex mutex_;
  int next_ = 0, left_out_ = 0;
};

// Lives as long as the communicator. Made in the first MPI_Allreduce on it, whatever its arguments,
// where the ranks agree to work together; its engine is made in a call that Convoy might take over,
// the first after Settings::after. Both are collective, as that call is. MPI lets one thread at a
// time call collectives of one communicator, so there is no lock here.
class Counterpart {
 public:
  // An id is the same on all ranks, and no other communicator of this job has it.
  using Id = std::int64_t;

  // Collective over `comm`, an intra-communicator of two ranks or more, of this job and with this
  // library. If any of them is not able to do without MPI, all leave everything to it. If their
  // settings differ or can't be read, one rank says so and ends the job. `number` is one that this
  // process has not yet given. Throws Failure.
  Counterpart(MPI_Comm comm, const Settings& settings, Setbacks& setbacks, bool able,
              std::uint32_t number);

  Id id() const { return id_; }

  // What becomes of a call depends only on what MPI requires to be the same on all ranks, or
  // Convoy's allreduce would meet MPI's. Throws Failure.
  Outcome allreduce(const Arguments& arguments);

  // Whether the engine has said on standard error why it failed.
  bool has_reported() const { return group_.engine && !group_.engine->failure().empty(); }

 private:
  // Whether it is so on all ranks. Collective.
  bool all_of_us(bool mine) const;
  // Makes the engine, or leaves everything to MPI if some rank can't or should not. Collective.
  void found();

  MPI_Comm comm_;
  const Settings& settings_;
  Setbacks& setbacks_;
  int ranks_ = 0;
  Id id_ = 0;
  bool able_ = false;
  std::size_t done_early_ = 0;  // bytes of calls that came too early
  comm::Group group_;           // empty as long
};

}  // namespace convoy::preload
