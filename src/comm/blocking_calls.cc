// Calls of a communicator that return when they are done.
#include <cstdint>
#include <string>
#include <vector>

#include "comm/engine/call.h"
#include "comm/internals.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

std::vector<std::string> Communicator::gather_text(std::string_view text, Match match) const {
  make_call(Kind::gather_text, {}, match);  // checks the match
  return CommunicatorInternals::gather(*this, Kind::gather_text, text, match);
}

std::string Communicator::broadcast_text(std::string_view text, int root, Match match) const {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(text.size())};
  broadcast(std::span(size), root, match);
  std::string result(text);
  result.resize(static_cast<std::size_t>(size[0]));
  broadcast(std::span(result), root, match);
  return result;
}

void Communicator::send(ConstBuffer d, int to, Match m) const { start_send(d, to, m).wait(); }
void Communicator::receive(Buffer d, int from, Match m) const { start_receive(d, from, m).wait(); }
void Communicator::broadcast(Buffer d, int root, Match m) const {
  start_broadcast(d, root, m).wait();
}
void Communicator::allreduce(Buffer d, ReduceOp op, Match m) const {
  CommunicatorInternals::allreduce(*this, d, op, CommunicatorInternals::choose(*this, d.bytes()),
                                   m);
}
void Communicator::allreduce_of_several(std::span<const Buffer> contributions, ReduceOp op,
                                        Match m) const {
  start_allreduce_of_several(contributions, op, m).wait();
}
void Communicator::reduce_scatter(Buffer d, ReduceOp op, Match m) const {
  start_reduce_scatter(d, op, m).wait();
}
void Communicator::allgather(Buffer d, Match m) const { start_allgather(d, m).wait(); }
void Communicator::alltoallv(ConstBuffer s, Parts sp, Buffer r, Parts rp, Match m) const {
  start_alltoallv(s, sp, r, rp, m).wait();
}
void Communicator::barrier(Match m) const {
  if (!CommunicatorInternals::meet_at_once(*this, m)) start_barrier(m).wait();
}

}  // namespace convoy::comm
