// Many operations in flight, and operations that outlive their communicator, for thread ranks and
// MPI ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "comm/internals.h"
#include "convoy/base/random.h"
#include "tests/comm/reference.h"

namespace convoy::comm {

enum class Order { same, opposite, random };

// Numbers 0 to count-1 in the order of this rank.
inline std::vector<std::size_t> order_of(Order order, std::size_t count, int rank) {
  if (order == Order::random) return permutation(count, 5, static_cast<std::uint64_t>(rank));
  std::vector<std::size_t> result(count);
  std::iota(result.begin(), result.end(), 0);
  if (order == Order::opposite && rank % 2 == 1) std::reverse(result.begin(), result.end());
  return result;
}

// Allreduces of so many keys, all in flight before the first is waited for. `elements` of f32 each;
// with 0 they are barriers.
inline void check_burst(const Communicator& comm, std::size_t operations, std::size_t elements,
                        Order order) {
  std::vector<std::vector<float>> data(operations);
  std::vector<Operation> running(operations);
  const auto value = [&](int rank, std::size_t key, std::size_t i) {
    return static_cast<float>((key + i) % 97 + static_cast<std::size_t>(rank));
  };
  for (const std::size_t key : order_of(order, operations, comm.rank())) {
    const Match match{static_cast<std::uint16_t>(key >> 16), static_cast<std::uint16_t>(key)};
    if (elements == 0) {
      running[key] = comm.start_barrier(match);
      continue;
    }
    data[key].resize(elements);
    for (std::size_t i = 0; i < elements; ++i) data[key][i] = value(comm.rank(), key, i);
    running[key] = comm.start_allreduce(buffer_of(data[key]), ReduceOp::sum, match);
  }
  for (const std::size_t key : order_of(order, operations, comm.rank() + 1)) running[key].wait();
  for (std::size_t key = 0; key < operations && elements > 0; ++key) {
    for (std::size_t i = 0; i < elements; ++i) {
      float want = 0;
      for (int rank = 0; rank < comm.size(); ++rank) want += value(rank, key, i);
      ASSERT_EQ(data[key][i], want) << "key " << key << " of " << operations << ", element " << i;
    }
  }
}

// Around the number of slots that each rank has at first, and far beyond.
inline void check_bursts(const Communicator& comm) {
  for (const Order order : {Order::same, Order::opposite, Order::random}) {
    for (const std::size_t operations : {63, 64, 65, 128, 500}) {
      for (const std::size_t elements : {0, 1, 300}) {
        check_burst(comm, operations, elements, order);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    check_burst(comm, 130, 4096, order);  // the largest that fits a payload
    check_burst(comm, 130, 4097, order);  // and the smallest that does not
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Every collective on a communicator that is gone before the operation is waited for. `make` makes
// one, collectively.
template <class Make>
void check_orphans(const Make& make) {
  for (const std::size_t count : {50UL, 40'000UL}) {
    std::vector<float> sum, mean, part, all, sent;
    std::vector<Operation> operations;
    int ranks = 0, rank = 0;
    {
      const Communicator comm = make();
      ranks = comm.size();
      rank = comm.rank();
      sum = mean = part = all = sent = contribution<float>(rank, count);
      operations.push_back(comm.start_allreduce(buffer_of(sum), ReduceOp::sum, {0, 1}));
      operations.push_back(comm.start_reduce_scatter(buffer_of(part), ReduceOp::sum, {0, 2}));
      operations.push_back(comm.start_allgather(buffer_of(all), {0, 3}));
      operations.push_back(comm.start_broadcast(buffer_of(sent), 0, {0, 4}));
      operations.push_back(comm.start_barrier({0, 5}));
    }
    operations.push_back(make().start_allreduce(buffer_of(mean), ReduceOp::average));
    for (Operation& operation : operations) operation.wait();
    const std::vector<float> want = expected<float>(ranks, count, ReduceOp::sum);
    ASSERT_EQ(sum, want);
    ASSERT_EQ(mean, expected<float>(ranks, count, ReduceOp::average));
    ASSERT_EQ(sent, contribution<float>(0, count));
    const Chunk own = chunk(count, ranks, rank);
    for (std::size_t i = own.begin; i < own.begin + own.count; ++i) ASSERT_EQ(part[i], want[i]);
    for (int other = 0; other < ranks; ++other) {
      const Chunk theirs = chunk(count, ranks, other);
      const std::vector<float> had = contribution<float>(other, count);
      for (std::size_t i = theirs.begin; i < theirs.begin + theirs.count; ++i)
        ASSERT_EQ(all[i], had[i]);
    }
  }
}

}  // namespace convoy::comm
