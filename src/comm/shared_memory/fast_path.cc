#include <sched.h>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/reproducible/kernels.h"
#include "comm/internals.h"
#include "comm/shared_memory/reduction.h"
#include "comm/shared_memory/small_reduction.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convoy::comm {
namespace {

void relax(bool crowded) {
  if (crowded) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  _mm_pause();
#endif
}

Task rest(Waiting& work, std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
  co_await end_of(work);
}

// Works without the engine as long as the others come soon: it takes microseconds to hand a
// collective over to it. If they don't, the rest is an operation like any other, with its timeout
// and its watch, and with what it touches kept by its state. Until then the caller's communicator,
// which outlives this blocking call, keeps that.
template <class HandOver>
void run(Waiting& work, bool crowded, const HandOver& hand_over) {
  std::exception_ptr error;
  const int looks = crowded ? 200 : 2000;  // some 50 us
  try {
    for (int look = 0; look < looks; ++look) {
      // On a crowded host the others run when there is nothing left to do here: to change between
      // ranks takes as long as to copy some ten KiB, and empties the caches.
      while (work.advance()) look = 0;
      if (work.done()) return;
      relax(crowded);
    }
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  hand_over([&](Io&) { return rest(work, error); }).wait();
}

}  // namespace

bool CommunicatorInternals::reduce_at_once(const Communicator& c, Buffer data, ReduceOp op,
                                           const AllreduceChoice& choice, Match match) {
  if (choice.algorithm != AllreduceAlgorithm::shared || !c.locality_->one_node() ||
      c.engine_->busy())
    return false;
  Node& node = *c.locality_->node;
  const Call call = make_reduction(Kind::allreduce, data, op, match);
  const int divisor = divisor_of(op, c.size());
  const Reduce reduce = reproducible(c) ? reduce_reproducibly : reduce_all;
  const std::uint64_t id = c.engine_->pass_by(call, [&] { return node.board().next_id(match); });
  const auto hand_over = [&](const auto& body) {
    return Operation(c.engine_->start(c.medium(), call, body, Engine::By::memory));
  };
  if (data.bytes() <= Board::kPayload) {
    SmallReduction work(node, call, id, data, op, divisor, reduce);
    run(work, node.crowded(), hand_over);
  } else {
    SharedReduction work(node, call, id, data, op, divisor, true, reduce);
    run(work, node.crowded(), hand_over);
  }
  return true;
}

bool CommunicatorInternals::meet_at_once(const Communicator& c, Match match) {
  if (!c.locality_->one_node() || c.engine_->busy()) return false;
  Node& node = *c.locality_->node;
  const Call call = make_call(Kind::barrier, {}, match);
  const std::uint64_t id = c.engine_->pass_by(call, [&] { return node.board().next_id(match); });
  SmallReduction work(node, call, id, {}, ReduceOp::sum, 1);
  run(work, node.crowded(), [&](const auto& body) {
    return Operation(c.engine_->start(c.medium(), call, body, Engine::By::memory));
  });
  return true;
}

}  // namespace convoy::comm
