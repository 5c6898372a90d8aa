#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {
namespace {

// Between the ranks that take part in it, one block. Both partners of an exchange compute the same
// from the same two operands, the lower rank's first (of two NaNs, and of zeros, it matters), so
// all end with the same bits.
Task exchange_block(Io& io, Buffer data, std::span<std::byte> theirs, ReduceOp op) {
  const int rank = io.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(io.size())));
  const int extra = io.size() - power;
  const auto incoming = theirs.first(data.bytes());
  const auto add = [&](int from) {
    std::array<const void*, 2> sources{data.data, incoming.data()};
    if (from < rank) std::swap(sources[0], sources[1]);
    reduce_all(op, data.type, data.data, sources, data.count);
  };

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
    add(rank + power);
  }
  int lane = 2;
  for (int distance = 1; distance < power; distance *= 2, ++lane) {
    const int partner = rank ^ distance;
    std::array<Ticket, 2> exchange;
    exchange[0] = io.receive(partner, incoming, lane);
    exchange[1] = io.send(partner, bytes_of(ConstBuffer(data)), lane);
    co_await all(exchange);
    add(partner);
  }
  if (op == ReduceOp::average) divide(data.type, data.data, data.count, io.size());
  if (rank < extra) {
    Ticket sent = io.send(rank + power, bytes_of(ConstBuffer(data)), 1);
    co_await one(sent);
  }
}

}  // namespace

Task allreduce_recursive_doubling(Io& io, Buffer data, ReduceOp op) {
  const std::size_t most = most_elements(io, data.type);
  const auto theirs =
      std::make_unique_for_overwrite<std::byte[]>(std::min(most, data.count) * size_of(data.type));
  std::size_t at = 0;
  do {  // nothing is an empty message
    const Buffer block = slice(data, at, std::min(most, data.count - at));
    Task exchange = exchange_block(io, block, {theirs.get(), block.bytes()}, op);
    co_await exchange;
    at += block.count;
  } while (at < data.count);
}

}  // namespace convoy::comm
