// A call of a collective as text and as bytes that ranks compare.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "comm/engine/io.h"
#include "comm/engine/task.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

enum class Kind : std::uint8_t {
  send,
  receive,
  broadcast,
  allreduce,
  reduce_scatter,
  allgather,
  alltoallv,
  barrier,
  gather_text,
  split,  // and duplicate, with_*
  allocate,
  join  // of a world
};

struct Call {
  Kind kind = Kind::barrier;
  Type type = Type::u8;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t has_op = 0;
  // The root, the other side, or how many contributions each rank has to an allreduce of several.
  std::int32_t peer = -1;
  std::uint64_t count = 0;
  Match match;

  // "allreduce(sum, 1024 x f32), channel 0, key 3"
  std::string text() const;
  // Whether the other rank's call fits this one.
  bool agrees_with(const Call& other) const;
};
static_assert(std::is_trivially_copyable_v<Call>);

// Makes a call of Convoy's own, whose match may be a reserved one.
Call make_own_call(Kind kind, ConstBuffer data, Match match);
// Throws UsageError for a channel out of range.
Call make_call(Kind kind, ConstBuffer data, Match match, int peer = -1);
// Throws UsageError for an average of whole numbers.
Call make_reduction(Kind kind, Buffer data, ReduceOp op, Match match);

// Compares this rank's call with both neighbors' in a ring: if any two ranks differ, some neighbors
// do. Throws Failure naming both ranks and both calls.
Task compare_calls(Io& io, Call mine);

}  // namespace convoy::comm
