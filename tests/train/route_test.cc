// What ranks send each other, carried out in one process.
#include "train/strategies/partitioned/route.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "model/execution/cut.h"
#include "tests/model/made_up_network.h"

namespace convoy::train {
namespace {

using model::PartitionedValue;
using torch::Tensor;

Tensor at(Tensor tensor, const Box& box) {
  for (std::size_t d = 0; d < box.begin.size(); ++d)
    tensor = tensor.narrow(static_cast<std::int64_t>(d), box.begin[d], box.size[d]);
  return tensor;
}

// Of a batch: rows, and of each this part.
Tensor part_of(const Tensor& batch, std::int64_t first, std::int64_t rows, const Slice& part) {
  return model::cut_samples(batch.narrow(0, first, rows), whole_of(part.tensor, part.shape), part);
}

// Every rank has what it wants, each element from one rank. `held` and `wanted` are what rank r has
// of the batch.
void expect_delivered(int ranks, const std::function<Route(int)>& route,
                      const std::function<Tensor(int)>& held,
                      const std::function<Tensor(int)>& wanted) {
  for (int to = 0; to < ranks; ++to) {
    const Route mine = route(to);
    const Tensor expected = wanted(to);
    ASSERT_EQ(expected.sizes(), at::IntArrayRef(mine.wanted));
    Tensor got = torch::zeros(mine.wanted, torch::kLong);
    std::int64_t received = 0;
    const auto deliver = [&](const Box& where, const Tensor& from, const Box& part) {
      ASSERT_EQ(where.size, part.size);
      if (!where.empty()) at(got, where).add_(at(from, part));
    };
    for (int from = 0; from < ranks; ++from) {
      const Route theirs = from == to ? mine : route(from);
      ASSERT_EQ(held(from).sizes(), at::IntArrayRef(theirs.held));
      const Box& in = mine.in[static_cast<std::size_t>(from)];
      const Box& out = theirs.out[static_cast<std::size_t>(to)];
      if (from == to) {
        EXPECT_TRUE(in.empty() && out.empty());
        deliver(mine.kept_wanted, held(to), mine.kept_held);
      } else {
        deliver(in, held(from), out);
        received += in.elements();
      }
    }
    EXPECT_EQ(received, mine.received());
    EXPECT_TRUE(got.equal(expected));
  }
}

// Numbers from 1 on, so that what comes twice, or not at all, is another number.
Tensor batch_of(const PartitionedValue& value, std::int64_t rows) {
  model::Shape shape = value.shape;
  shape.insert(shape.begin(), rows);
  return torch::arange(1, rows * model::elements_of(value.shape) + 1, torch::kLong).view(shape);
}

void expect_all_routes(const model::PartitionPlan& plan, const Rows& rows) {
  const std::int64_t all = rows.all();
  for (const PartitionedValue& value : plan.values) {
    SCOPED_TRACE(value.name);
    const Tensor batch = batch_of(value, all);
    const Slice whole = whole_of(value.name, value.shape);
    const auto tile = [&](int r) { return value.tiles[static_cast<std::size_t>(r)]; };
    const auto needed = [&](int r) { return value.needed[static_cast<std::size_t>(r)]; };
    const auto own_rows = [&](int r) {
      return part_of(batch, rows.before(r), rows.of[static_cast<std::size_t>(r)], whole);
    };
    const auto own_tile = [&](int r) { return part_of(batch, 0, all, tile(r)); };
    const auto box = [&](int r) { return part_of(batch, 0, all, needed(r)); };
    if (value.input) {
      expect_delivered(
          plan.partitions, [&](int r) { return route_of_input(value, rows, r); }, own_rows, box);
      continue;
    }
    if (!value.whole) {
      expect_delivered(
          plan.partitions, [&](int r) { return route_between(value, all, r); }, own_tile, box);
    }
    expect_delivered(
        plan.partitions, [&](int r) { return route_home(value, rows, r); }, own_tile, own_rows);
    expect_delivered(
        plan.partitions, [&](int r) { return route_to_all(value, all, r); }, own_tile,
        [&](int) { return batch; });
  }
}

TEST(Route, BringsEachItsPartOnce) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::MadeUp made(seed);
    const model::PartitionPlan plan = plan_partition(made.net, made.net.inputs, made.rules);
    Rows rows;
    for (int r = 0; r < plan.partitions; ++r)
      rows.of.push_back((static_cast<std::int64_t>(seed) + 2 * r) % 4);
    expect_all_routes(plan, rows);
    if (HasFailure()) break;
  }
}

TEST(Route, OfNoRowsIsEmpty) {
  const model::MadeUp made(3, {.partitions = 3});
  const model::PartitionPlan plan = plan_partition(made.net, made.net.inputs, made.rules);
  expect_all_routes(plan, {{0, 0, 0}});
  for (const PartitionedValue& value : plan.values)
    EXPECT_EQ(route_to_all(value, 0, 1).sent() + route_to_all(value, 0, 1).received(), 0);
}

TEST(Box, OverlapsAndLiesWithin) {
  const Box a{{1, 2}, {4, 3}}, b{{3, 0}, {9, 4}};
  EXPECT_EQ(overlap(a, b), (Box{{3, 2}, {2, 2}}));
  EXPECT_EQ(within(b, overlap(a, b)), (Box{{0, 2}, {2, 2}}));
  EXPECT_TRUE(overlap(a, Box{{5, 2}, {1, 1}}).empty());
  EXPECT_TRUE(overlap(a, Box{}).empty());
}

}  // namespace
}  // namespace convoy::train
