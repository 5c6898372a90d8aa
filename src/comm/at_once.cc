#include <optional>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/shared/small.h"
#include "comm/internals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convoy::comm {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

Task rest(SmallReduction& work, std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
  co_await end_of(work);
}

// Looks for the others some microseconds long, which is enough if they come at the same time. If
// not, the rest is an operation like any other, with its timeout and its watch.
void meet(Engine& engine, const std::shared_ptr<Transport>& transport, Node& node,
          const Call& call, Buffer data, ReduceOp op) {
  check_match(call.match);
  std::optional<SmallReduction> work;
  const bool begun = engine.in_good_order([&] {
    work.emplace(node, call, node.board().next_id(call.match), data, op,
                 divisor_of(op, static_cast<int>(node.size())));
    engine.remember(call);
    return work->begin();
  });
  std::exception_ptr error;
  try {
    for (int look = 0; begun && look <= node.looks(); ++look) {
      work->advance();
      if (work->done()) return;
      relax();
    }
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  Operation(engine.start(transport, call, [&](Io&) { return rest(*work, error); })).wait();
}

}  // namespace

bool CommunicatorInternals::reduce_at_once(const Communicator& c, Buffer data, ReduceOp op,
                                           Match match) {
  if (data.bytes() > Board::kPayload || !c.locality_->one_node() ||
      choose(c, data.bytes()).algorithm != AllreduceAlgorithm::shared)
    return false;
  meet(*c.engine_, c.transport_, *c.locality_->node,
       make_reduction(Kind::allreduce, data, op, match), data, op);
  return true;
}

bool CommunicatorInternals::meet_at_once(const Communicator& c, Match match) {
  if (!c.locality_->one_node()) return false;
  meet(*c.engine_, c.transport_, *c.locality_->node, make_call(Kind::barrier, {}, match), {},
       ReduceOp::sum);
  return true;
}

}  // namespace convoy::comm
