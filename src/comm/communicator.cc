#include "convoy/comm/communicator.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "comm/call.h"
#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/alltoallv/alltoallv.h"
#include "comm/collectives/barrier/barrier.h"
#include "comm/collectives/broadcast/broadcast.h"
#include "comm/collectives/ring/stream.h"
#include "comm/engine.h"
#include "comm/internals.h"
#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

// Adds the comparison of calls in front of a collective.
Task checked(Io& io, Call call, std::function<Task(Io&)> body) {
  co_await compare_calls(io, call);
  Task inner = body(io);
  co_await inner;
}

void check_match(Match match) {
  if (match.channel >= Match::kChannels) {
    throw UsageError("channel " + std::to_string(match.channel) +
                     " is out of range: channels are 0 to " + std::to_string(Match::kChannels - 1));
  }
}

Operation start_collective(const std::shared_ptr<Engine>& engine,
                           const std::shared_ptr<Transport>& transport, Call call,
                           const std::function<Task(Io&)>& body) {
  check_match(call.match);
  if (engine->options().check_calls && transport->size() > 1) {
    return Operation(
        engine->start(transport, call, [&](Io& io) { return checked(io, call, body); }));
  }
  return Operation(engine->start(transport, call, body));
}

Call make_call(Kind kind, ConstBuffer data, Match match, int peer = -1) {
  Call call;
  call.kind = kind;
  call.type = data.type;
  call.count = data.count;
  call.peer = peer;
  call.match = match;
  return call;
}

Call make_reduction(Kind kind, Buffer data, ReduceOp op, Match match) {
  Call call = make_call(kind, data, match);
  call.has_op = 1;
  call.op = op;
  if (op == ReduceOp::average &&
      (data.type == Type::i32 || data.type == Type::i64 || data.type == Type::u8)) {
    throw UsageError(std::string("an average of ") + name_of(data.type) +
                     " is not defined; use sum");
  }
  return call;
}

void check_rank(int rank, int size, const char* what) {
  if (rank < 0 || rank >= size) {
    throw UsageError(std::string(what) + " is rank " + std::to_string(rank) +
                     ", but there are only ranks 0 to " + std::to_string(size - 1));
  }
}

Task one_message(Io& io, bool sending, Buffer data, int peer) {
  std::span<std::byte> rest = bytes_of(data);
  do {  // an empty message is a message
    const auto part = rest.first(std::min(rest.size(), Transport::kMaxMessage));
    Ticket ticket = sending ? io.send(peer, part) : io.receive(peer, part);
    co_await one(ticket);
    rest = rest.subspan(part.size());
  } while (!rest.empty());
}

Task gather_task(Io& io, std::span<const std::byte> mine, std::span<std::uint64_t> sizes,
                 std::vector<std::vector<std::byte>>& texts) {
  sizes[static_cast<std::size_t>(io.rank())] = mine.size();
  co_await ring_stream(io, Buffer(sizes.data(), sizes.size(), Type::i64), ReduceOp::sum,
                       RingPhases::allgather);
  std::vector<Ticket> tickets;
  for (int rank = 0; rank < io.size(); ++rank) {
    auto& text = texts[static_cast<std::size_t>(rank)];
    text.resize(sizes[static_cast<std::size_t>(rank)]);
    if (rank == io.rank()) {
      std::copy(mine.begin(), mine.end(), text.begin());
      continue;
    }
    tickets.push_back(io.receive(rank, text, 1));
    tickets.push_back(io.send(rank, mine, 1));
  }
  co_await all(tickets);
}

}  // namespace

Chunk chunk(std::size_t count, int parts, int index) {
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t base = count / n;
  const std::size_t larger = count % n;
  return {i * base + std::min(i, larger), base + (i < larger ? 1 : 0)};
}

Communicator::Communicator(std::shared_ptr<Engine> engine, std::shared_ptr<Transport> transport)
    : engine_(std::move(engine)),
      transport_(std::move(transport)),
      nodes_(engine_->nodes_of(*transport_)) {}

int Communicator::rank() const { return transport_->rank(); }
int Communicator::size() const { return transport_->size(); }
bool Communicator::advance() const { return engine_->advance(); }
Traffic Communicator::traffic() const {
  return engine_->exclusively([&] { return transport_->traffic(); });
}

Communicator Communicator::split(int color, int key) const {
  std::shared_ptr<Transport> part =
      engine_->exclusively([&] { return transport_->split(color, key); });
  return part ? Communicator(engine_, std::move(part)) : Communicator();
}
Communicator Communicator::duplicate() const { return split(0, rank()); }

Operation Communicator::start_send(ConstBuffer data, int to, Match match) const {
  check_match(match);
  check_rank(to, size(), "the receiver");
  const Buffer buffer(const_cast<void*>(data.data), data.count, data.type);  // only read
  return Operation(engine_->start(transport_, make_call(Kind::send, data, match, to),
                                  [&](Io& io) { return one_message(io, true, buffer, to); }));
}
Operation Communicator::start_receive(Buffer data, int from, Match match) const {
  check_match(match);
  check_rank(from, size(), "the sender");
  return Operation(engine_->start(transport_, make_call(Kind::receive, data, match, from),
                                  [&](Io& io) { return one_message(io, false, data, from); }));
}
Operation Communicator::start_broadcast(Buffer data, int root, Match match) const {
  check_rank(root, size(), "the root");
  return start_collective(engine_, transport_, make_call(Kind::broadcast, data, match, root),
                          [=](Io& io) { return broadcast_binomial(io, data, root); });
}
Operation Communicator::start_allreduce(Buffer data, ReduceOp op, Match match) const {
  return CommunicatorInternals::start_allreduce(
      *this, data, op, engine_->selection().choose(data.bytes(), size(), nodes_), match);
}
Operation CommunicatorInternals::start_allreduce(const Communicator& c, Buffer data, ReduceOp op,
                                                 const AllreduceChoice& choice, Match match) {
  return start_collective(c.engine_, c.transport_, make_reduction(Kind::allreduce, data, op, match),
                          [=](Io& io) { return comm::allreduce(io, data, op, choice); });
}
Operation Communicator::start_reduce_scatter(Buffer data, ReduceOp op, Match match) const {
  return start_collective(
      engine_, transport_, make_reduction(Kind::reduce_scatter, data, op, match),
      [=](Io& io) { return ring_stream(io, data, op, RingPhases::reduce_scatter); });
}
Operation Communicator::start_allgather(Buffer data, Match match) const {
  return start_collective(
      engine_, transport_, make_call(Kind::allgather, data, match),
      [=](Io& io) { return ring_stream(io, data, ReduceOp::sum, RingPhases::allgather); });
}
Operation Communicator::start_barrier(Match match) const {
  return start_collective(engine_, transport_, make_call(Kind::barrier, {}, match),
                          [](Io& io) { return barrier_dissemination(io); });
}

Operation Communicator::start_alltoallv(ConstBuffer send, std::span<const std::size_t> send_counts,
                                        Buffer receive, std::span<const std::size_t> receive_counts,
                                        Match match) const {
  const auto check = [&](std::span<const std::size_t> counts, std::size_t available,
                         const char* side) {
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    if (counts.size() != static_cast<std::size_t>(size()) || total > available) {
      throw UsageError(std::string("alltoallv: ") + side + " has " + std::to_string(counts.size()) +
                       " counts that add up to " + std::to_string(total) + "; there are " +
                       std::to_string(size()) + " ranks and the buffer holds " +
                       std::to_string(available) + " elements");
    }
  };
  check(send_counts, send.count, "the send side");
  check(receive_counts, receive.count, "the receive side");
  if (send.type != receive.type)
    throw UsageError("alltoallv: both buffers must have the same type");
  const std::vector<std::size_t> out(send_counts.begin(), send_counts.end());
  const std::vector<std::size_t> in(receive_counts.begin(), receive_counts.end());
  if (out[static_cast<std::size_t>(rank())] != in[static_cast<std::size_t>(rank())]) {
    throw UsageError("alltoallv: rank " + std::to_string(rank()) + " sends itself " +
                     std::to_string(out[static_cast<std::size_t>(rank())]) +
                     " elements and expects " +
                     std::to_string(in[static_cast<std::size_t>(rank())]));
  }
  return start_collective(engine_, transport_, make_call(Kind::alltoallv, send, match),
                          [=](Io& io) { return alltoallv_pairwise(io, send, out, receive, in); });
}

std::vector<std::string> Communicator::gather_text(std::string_view text, Match match) const {
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size()));
  std::vector<std::vector<std::byte>> texts(sizes.size());
  const std::span mine(reinterpret_cast<const std::byte*>(text.data()), text.size());
  const ConstBuffer data(text.data(), text.size(), Type::u8);
  start_collective(engine_, transport_, make_call(Kind::gather_text, data, match),
                   [&, mine](Io& io) { return gather_task(io, mine, sizes, texts); })
      .wait();
  std::vector<std::string> result;
  for (const auto& bytes : texts)
    result.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return result;
}

void Communicator::send(ConstBuffer d, int to, Match m) const { start_send(d, to, m).wait(); }
void Communicator::receive(Buffer d, int from, Match m) const { start_receive(d, from, m).wait(); }
void Communicator::broadcast(Buffer d, int root, Match m) const {
  start_broadcast(d, root, m).wait();
}
void Communicator::allreduce(Buffer d, ReduceOp op, Match m) const {
  start_allreduce(d, op, m).wait();
}
void Communicator::reduce_scatter(Buffer d, ReduceOp op, Match m) const {
  start_reduce_scatter(d, op, m).wait();
}
void Communicator::allgather(Buffer d, Match m) const { start_allgather(d, m).wait(); }
void Communicator::alltoallv(ConstBuffer s, std::span<const std::size_t> sc, Buffer r,
                             std::span<const std::size_t> rc, Match m) const {
  start_alltoallv(s, sc, r, rc, m).wait();
}
void Communicator::barrier(Match m) const { start_barrier(m).wait(); }

}  // namespace convoy::comm
