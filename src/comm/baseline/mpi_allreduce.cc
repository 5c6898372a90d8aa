#include "comm/baseline/mpi_allreduce.h"

#include <mpi.h>

#include <algorithm>
#include <limits>

#include "comm/internals.h"
#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    case Type::i32:
      return MPI_INT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u8:
      return MPI_UINT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::sum:
      return MPI_SUM;
    default:
      return MPI_OP_NULL;
  }
}

}  // namespace

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

bool MpiAllreduce::supports(Type type) { return type != Type::f16 && type != Type::bf16; }

void MpiAllreduce::run(Buffer data, ReduceOp op) {
  const MPI_Datatype type = mpi_type(data.type);
  const MPI_Op mpi = mpi_op(op);
  if (type == MPI_DATATYPE_NULL || mpi == MPI_OP_NULL)
    throw UsageError(std::string("MPI has no ") + name_of(op) + " of " + name_of(data.type));
  impl_->engine->exclusively([&] {
    constexpr std::size_t kMost = std::numeric_limits<int>::max();
    std::size_t done = 0;
    do {
      const Buffer part = slice(data, done, std::min(kMost, data.count - done));
      const int error = MPI_Allreduce(MPI_IN_PLACE, part.data, static_cast<int>(part.count), type,
                                      mpi, impl_->comm);
      if (error != MPI_SUCCESS) throw Failure("MPI_Allreduce failed");
      done += part.count;
    } while (done < data.count);
  });
}

}  // namespace convoy::comm
