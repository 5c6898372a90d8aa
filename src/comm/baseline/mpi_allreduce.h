// The MPI library's own allreduce: what benchmarks compare with. No part of Convoy's collectives.
#pragma once

#include <memory>

#include "convoy/comm/communicator.h"

namespace convoy::comm {

// MPI_Allreduce over a duplicate of MPI_COMM_WORLD. One per process; destroy it before the world.
class MpiAllreduce {
 public:
  // `world` is the communicator of all ranks of World::join(). Collective. Throws UsageError when
  // its ranks are not processes of MPI.
  explicit MpiAllreduce(const Communicator& world);
  ~MpiAllreduce();

  // MPI has no 16-bit floats.
  static bool supports(Type type);

  // In place; `op` is not average. Nothing else of this world advances meanwhile.
  void run(Buffer data, ReduceOp op);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::comm
