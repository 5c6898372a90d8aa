#include "sums.h"

#include <cstddef>

#include <simgrid/s4u.hpp>

#include "convoy/comm/types.h"

// The linker puts __wrap_reduce in place of comm/kernels/reduce.h's reduce(), and that behind
// __real_reduce (--wrap in CMakeLists.txt): the algorithms under test stay as they are.
#define REDUCE _ZN6convoy4comm6reduceENS0_8ReduceOpENS0_4TypeEPvPKvm
#define JOINED(prefix, name) prefix##name
#define SYMBOL(prefix, name) JOINED(prefix, name)

namespace convoy::simulate {
namespace {

// True if the addition is to be done as well.
bool pay(std::size_t bytes) {
  const simgrid::s4u::Host* host = simgrid::s4u::this_actor::get_host();
  const auto& sums = *host->get_data<const Sums>();
  if (!sums.free) simgrid::s4u::this_actor::execute(static_cast<double>(bytes));
  return sums.real;
}

void sum_floats(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
  const auto n = static_cast<std::size_t>(*count);
  if (!pay(n * sizeof(float))) return;
  for (std::size_t i = 0; i < n; ++i)
    static_cast<float*>(into)[i] += static_cast<const float*>(from)[i];
}

}  // namespace

MPI_Op priced_sum() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(sum_floats, 1, &op);
  return op;
}

}  // namespace convoy::simulate

extern "C" {
void SYMBOL(__real_, REDUCE)(convoy::comm::ReduceOp op, convoy::comm::Type type, void* into,
                             const void* from, std::size_t count);
void SYMBOL(__wrap_, REDUCE)(convoy::comm::ReduceOp op, convoy::comm::Type type, void* into,
                             const void* from, std::size_t count) {
  if (convoy::simulate::pay(count * convoy::comm::size_of(type)))
    SYMBOL(__real_, REDUCE)(op, type, into, from, count);
}
}
