// Collectives in registered and in ordinary memory, for thread ranks and MPI ranks of one host.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "comm/internals.h"
#include "convoy/base/random.h"
#include "tests/comm/reference.h"

namespace convoy::comm {

// Allreduce, reduce_scatter, allgather and broadcast of `data`, wherever it lies.
inline void check_in_place(const Communicator& comm, std::span<float> data) {
  const std::size_t count = data.size();
  const auto fill = [&](int rank) {
    const auto values = contribution<float>(rank, count);
    std::copy(values.begin(), values.end(), data.begin());
  };
  const auto expect = [&](const std::vector<float>& want, Chunk part) {
    for (std::size_t i = part.begin; i < part.begin + part.count; ++i)
      ASSERT_EQ(data[i], want[i]) << "element " << i << " of " << count;
  };
  const Chunk own = chunk(count, comm.size(), comm.rank());
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
    const auto want = expected<float>(comm.size(), count, op);
    fill(comm.rank());
    comm.allreduce(data, op);
    expect(want, {0, count});
    fill(comm.rank());
    comm.start_allreduce(data, op).wait();
    expect(want, {0, count});
    fill(comm.rank());
    comm.reduce_scatter(data, op);
    expect(want, own);
    for (std::size_t i = 0; i < count; ++i) {
      if (i < own.begin || i >= own.begin + own.count) data[i] = -1;
    }
    comm.allgather(data);
    expect(want, {0, count});
  }
  for (int root = 0; root < comm.size(); ++root) {
    fill(comm.rank());
    comm.broadcast(data, root);
    expect(contribution<float>(root, count), {0, count});
  }
}

// Each rank's buffer in registered memory, in ordinary memory, or in either as the ranks please.
inline void check_shared_memory(const Communicator& comm) {
  const std::size_t largest = 150'001;
  const RegisteredMemory memory = comm.allocate((largest + 1) * sizeof(float));
  EXPECT_EQ(memory.shared(), CommunicatorInternals::locality(comm).node != nullptr);
  EXPECT_EQ(memory.bytes().size(), (largest + 1) * sizeof(float));
  EXPECT_EQ(memory.bytes()[12345], std::byte{0});
  std::vector<float> ordinary(largest + 1);
  const std::span registered(reinterpret_cast<float*>(memory.bytes().data()), largest + 1);
  for (std::size_t count : {1UL, 5UL, 4097UL, 20'000UL, largest}) {
    for (int pattern : {0, 1, 2, 3}) {
      const bool here = pattern == 0 || (pattern == 2 && comm.rank() % 2 == 0) ||
                        (pattern == 3 && comm.rank() == comm.size() - 1);
      // One element from the start: not aligned to a cache line.
      check_in_place(comm, (here ? registered : std::span(ordinary)).subspan(1, count));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// More collectives in flight than there are staging blocks, started in another order on each rank.
inline void check_crowd(const Communicator& comm) {
  constexpr std::size_t kKeys = 24;
  std::vector<std::vector<float>> data(kKeys);
  std::vector<Operation> operations(kKeys);
  for (std::size_t key : permutation(kKeys, 1, static_cast<std::uint64_t>(comm.rank()))) {
    data[key] = contribution<float>(comm.rank(), 30'000 + key);
    operations[key] = comm.start_allreduce(buffer_of(data[key]), ReduceOp::sum,
                                           {0, static_cast<std::uint16_t>(key)});
  }
  for (Operation& operation : operations) operation.wait();
  for (std::size_t key = 0; key < kKeys; ++key)
    ASSERT_EQ(data[key], expected<float>(comm.size(), 30'000 + key, ReduceOp::sum));
}

}  // namespace convoy::comm
