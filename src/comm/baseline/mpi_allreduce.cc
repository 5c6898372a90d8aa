#include "comm/baseline/mpi_allreduce.h"

#include <mpi.h>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/internals.h"
#include "comm/transports/mpi.h"
#include "convoy/base/error.h"

namespace convoy::comm {

struct MpiAllreduce::Impl {
  std::shared_ptr<Engine> engine;
  MPI_Comm comm = MPI_COMM_NULL;
};

MpiAllreduce::MpiAllreduce(const Communicator& world) : impl_(std::make_unique<Impl>()) {
  impl_->engine = CommunicatorInternals::engine(world);
  int initialized = 0;
  MPI_Initialized(&initialized);
  int size = 0;
  if (initialized != 0) MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != world.size())
    throw UsageError("MPI's own allreduce needs ranks that mpirun or srun has started");
  // All calls of MPI in this process take turns under the engine's lock.
  impl_->engine->exclusively([&] { MPI_Comm_dup(MPI_COMM_WORLD, &impl_->comm); });
}

MpiAllreduce::~MpiAllreduce() {
  impl_->engine->exclusively([&] { MPI_Comm_free(&impl_->comm); });
}

bool MpiAllreduce::supports(Type type) { return mpi_has(type); }

void MpiAllreduce::run(Buffer data, ReduceOp op) {
  impl_->engine->exclusively([&] { mpi_allreduce(impl_->comm, data, op); });
}

}  // namespace convoy::comm
