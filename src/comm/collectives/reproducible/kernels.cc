#include "comm/collectives/reproducible/kernels.h"

#include "comm/collectives/reproducible/narrow.h"
#include "comm/collectives/reproducible/order.h"
#include "comm/collectives/reproducible/wide.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {
namespace {

std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }
const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }

}  // namespace

void find_exponents(const Grid& grid, const void* data, void* exponents, std::size_t count) {
  if (!grid.narrow()) return find_exponents_wide(grid, bytes(data), bytes(exponents), count);
  const std::array<const void*, 1> sources{data};
  run_narrow(NarrowStep::find_exponents, grid, bytes(exponents), sources, nullptr, count, 1);
}

void to_whole(const Grid& grid, const void* data, const void* exponents, const WholeNumbers& whole,
              std::size_t count) {
  if (!grid.narrow()) return to_whole_wide(grid, bytes(data), bytes(exponents), whole, count);
  const std::array<const void*, 1> sources{data};
  run_narrow(NarrowStep::to_whole, grid, whole[0], sources, bytes(exponents), count, 1);
}

void from_whole(const Grid& grid, const WholeNumbers& whole, const void* exponents, void* data,
                std::size_t count, int divisor) {
  if (!grid.narrow())
    return from_whole_wide(grid, whole, bytes(exponents), bytes(data), count, divisor);
  const std::array<const void*, 1> sources{whole[0]};
  run_narrow(NarrowStep::from_whole, grid, bytes(data), sources, bytes(exponents), count, divisor);
}

Type ordered_type(Type type) { return type == Type::f64 ? Type::i64 : Type::i32; }

void to_ordered(Type type, ReduceOp op, const void* data, void* ordered, std::size_t count) {
  const std::array<const void*, 1> sources{data};
  run_order(OrderStep::to_ordered, type, op, bytes(ordered), sources, count);
}

void from_ordered(Type type, const void* ordered, void* data, std::size_t count) {
  const std::array<const void*, 1> sources{ordered};
  run_order(OrderStep::from_ordered, type, ReduceOp::max, bytes(data), sources, count);
}

void reduce_reproducibly(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                         std::size_t count, int divisor) {
  if (!is_floating(type)) return reduce_all(op, type, into, sources, count, divisor);
  if (op == ReduceOp::max || op == ReduceOp::min)
    return run_order(OrderStep::reduce, type, op, bytes(into), sources, count);
  const Grid grid = grid_of(type, static_cast<int>(sources.size()));
  if (grid.narrow())
    run_narrow(NarrowStep::add, grid, bytes(into), sources, nullptr, count, divisor);
  else
    add_wide(grid, bytes(into), sources, count, divisor);
}

}  // namespace convoy::comm
