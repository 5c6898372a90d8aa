// Inputs and expected results of collectives, the same for thread ranks and MPI ranks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

// Small integers: every order of summation gives the same sum exactly, in every type.
template <class T>
std::vector<T> contribution(int rank, std::size_t count) {
  RandomStream random(7, static_cast<std::uint64_t>(rank), count);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random.below(16));
  return values;
}

template <class T>
std::vector<T> expected(int ranks, std::size_t count, ReduceOp op) {
  std::vector<T> result = contribution<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> other = contribution<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (op == ReduceOp::max)
        result[i] = std::max(result[i], other[i]);
      else if (op == ReduceOp::min)
        result[i] = std::min(result[i], other[i]);
      else
        result[i] = static_cast<T>(result[i] + other[i]);
    }
  }
  if (op == ReduceOp::average) {
    for (T& value : result) value = static_cast<T>(value / static_cast<T>(ranks));
  }
  return result;
}

template <class T>
void check_allreduce(const Communicator& comm, std::size_t count, ReduceOp op) {
  std::vector<T> data = contribution<T>(comm.rank(), count);
  comm.allreduce(buffer_of(data), op);
  ASSERT_EQ(data, expected<T>(comm.size(), count, op))
      << "count " << count << " op " << name_of(op);
}

// All collectives on this communicator, compared with what a serial program computes.
inline void check_all_collectives(const Communicator& comm) {
  const int p = comm.size();
  const int r = comm.rank();
  for (std::size_t count : {0, 1, 2, 3, 7, 64, 1000, 8191, 9000, 100'003}) {
    check_allreduce<float>(comm, count, ReduceOp::sum);
    if (count > 10'000) continue;
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      check_allreduce<std::int32_t>(comm, count, op);
      check_allreduce<std::int64_t>(comm, count, op);
      check_allreduce<double>(comm, count, op);
      check_allreduce<std::uint8_t>(comm, count, op);
    }
    check_allreduce<float>(comm, count, ReduceOp::average);
    check_allreduce<double>(comm, count, ReduceOp::average);
  }
  for (std::size_t count : {0, 1, 5, 1000, 200'000}) {
    // broadcast, every root
    for (int root = 0; root < p; ++root) {
      std::vector<float> data = contribution<float>(r, count);
      comm.broadcast(buffer_of(data), root);
      ASSERT_EQ(data, contribution<float>(root, count));
    }
    // reduce_scatter, then allgather: an allreduce
    const Chunk own = chunk(count, p, r);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      const std::vector<float> want = expected<float>(p, count, op);
      std::vector<float> data = contribution<float>(r, count);
      comm.reduce_scatter(buffer_of(data), op);
      const std::vector<float> slice(
          data.begin() + static_cast<std::ptrdiff_t>(own.begin),
          data.begin() + static_cast<std::ptrdiff_t>(own.begin + own.count));
      ASSERT_EQ(slice, std::vector<float>(
                           want.begin() + static_cast<std::ptrdiff_t>(own.begin),
                           want.begin() + static_cast<std::ptrdiff_t>(own.begin + own.count)));
      std::vector<float> whole(count, -1);
      std::copy(slice.begin(), slice.end(), whole.begin() + static_cast<std::ptrdiff_t>(own.begin));
      comm.allgather(buffer_of(whole));
      ASSERT_EQ(whole, want);
    }
  }
  // alltoallv: rank a sends (a + 2b) mod 5 elements, each a * 1000 + b, to b
  const auto amount = [](int from, int to) {
    return static_cast<std::size_t>((from + 2 * to) % 5);
  };
  std::vector<std::size_t> out, in;
  std::vector<std::int32_t> sent, want;
  for (int q = 0; q < p; ++q) {
    out.push_back(amount(r, q));
    in.push_back(amount(q, r));
    sent.insert(sent.end(), amount(r, q), r * 1000 + q);
    want.insert(want.end(), amount(q, r), q * 1000 + r);
  }
  std::vector<std::int32_t> got(want.size());
  comm.alltoallv(buffer_of(sent), out, buffer_of(got), in);
  ASSERT_EQ(got, want);
  // The same to and from places in descending order, with gaps of one element.
  const auto descending = [](const std::vector<std::size_t>& counts) {
    std::vector<std::size_t> offsets(counts.size());
    std::size_t end = 0;
    for (std::size_t q = offsets.size(); q-- > 0; end += counts[q] + 1) offsets[q] = end;
    return offsets;
  };
  const auto spread = [&](const std::vector<std::int32_t>& parts,
                          const std::vector<std::size_t>& counts) {
    std::vector<std::int32_t> places(parts.size() + counts.size(), -1);
    const auto offsets = descending(counts);
    auto part = parts.begin();
    for (std::size_t q = 0; q < counts.size(); ++q) {
      const auto end = part + static_cast<std::ptrdiff_t>(counts[q]);
      std::copy(part, end, places.begin() + static_cast<std::ptrdiff_t>(offsets[q]));
      part = end;
    }
    return places;
  };
  std::vector<std::int32_t> places(got.size() + in.size(), -1);
  const auto sent_places = spread(sent, out);
  const auto out_offsets = descending(out), in_offsets = descending(in);
  comm.alltoallv(buffer_of(sent_places), {out, out_offsets}, buffer_of(places), {in, in_offsets});
  ASSERT_EQ(places, spread(want, in));
  comm.barrier();

  const auto texts = comm.gather_text(std::string(static_cast<std::size_t>(r), 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(p));
  for (int q = 0; q < p; ++q)
    ASSERT_EQ(texts[static_cast<std::size_t>(q)].size(), static_cast<std::size_t>(q));

  for (int root = 0; root < p; ++root) {
    // Empty on rank 0, and of another length on each.
    const auto text_of = [](int rank) {
      return std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank));
    };
    ASSERT_EQ(comm.broadcast_text(text_of(r), root), text_of(root));
  }
}

// Several operations in flight whose calls come in another order on every rank.
inline void check_matching(const Communicator& comm) {
  constexpr int kKeys = 12;
  std::vector<std::vector<float>> data(kKeys);
  std::vector<Operation> operations(kKeys);
  const auto order = permutation(kKeys, 1, static_cast<std::uint64_t>(comm.rank()));
  for (std::size_t key : order) {
    data[key] = contribution<float>(comm.rank() + static_cast<int>(key), 20'000 + key);
    const Match match{static_cast<std::uint16_t>(key % 3), static_cast<std::uint16_t>(key)};
    operations[key] = comm.start_allreduce(buffer_of(data[key]), ReduceOp::sum, match);
  }
  for (Operation& operation : operations) operation.wait();
  for (std::size_t key = 0; key < kKeys; ++key) {
    std::vector<float> want(20'000 + key, 0.F);
    for (int rank = 0; rank < comm.size(); ++rank) {
      const auto part = contribution<float>(rank + static_cast<int>(key), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += part[i];
    }
    ASSERT_EQ(data[key], want) << "key " << key;
  }
}

}  // namespace convoy::comm
