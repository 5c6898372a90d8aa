#include <array>
#include <bit>
#include <memory>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {

// Both partners of an exchange add the same two numbers, in either order, so all end with the same
// bits.
Task allreduce_recursive_doubling(Io& io, Buffer data, ReduceOp op) {
  const int rank = io.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(io.size())));
  const int extra = io.size() - power;
  const auto theirs = std::make_unique_for_overwrite<std::byte[]>(data.bytes());
  const std::span<std::byte> incoming(theirs.get(), data.bytes());

  // Ranks power .. size-1 take part through their partner rank - power.
  if (rank >= power) {
    Ticket sent = io.send(rank - power, bytes_of(ConstBuffer(data)));
    co_await one(sent);
    Ticket received = io.receive(rank - power, bytes_of(data), 1);
    co_await one(received);
    co_return;
  }
  if (rank < extra) {
    Ticket received = io.receive(rank + power, incoming);
    co_await one(received);
    reduce(op, data.type, data.data, theirs.get(), data.count);
  }
  int lane = 2;
  for (int distance = 1; distance < power; distance *= 2, ++lane) {
    const int partner = rank ^ distance;
    std::array<Ticket, 2> exchange;
    exchange[0] = io.receive(partner, incoming, lane);
    exchange[1] = io.send(partner, bytes_of(ConstBuffer(data)), lane);
    co_await all(exchange);
    reduce(op, data.type, data.data, theirs.get(), data.count);
  }
  if (op == ReduceOp::average) divide(data.type, data.data, data.count, io.size());
  if (rank < extra) {
    Ticket sent = io.send(rank + power, bytes_of(ConstBuffer(data)), 1);
    co_await one(sent);
  }
}

}  // namespace convoy::comm
