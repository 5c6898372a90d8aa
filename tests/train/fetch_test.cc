// A tensor that ranks hold parts of, brought to those that need parts of it, and the loss of scores
// that they hold parts of; against one process.
#include "train/strategies/partitioned/fetch.h"

#include <gtest/gtest.h>

#include "parallel/tensors.h"
#include "tests/parallel/mpi_main.h"
#include "tests/train/small_world.h"

namespace convoy::train {
namespace {

using model::PartitionedValue;
using torch::Tensor;

int ranks() { return test_world().size(); }
int rank() { return test_world().rank(); }

// An image of 2 maps and 5 columns; rank r holds r + 1 of its rows, and needs two more on either
// side, which can be of several ranks.
PartitionedValue rows_of_an_image() {
  std::int64_t height = 0;
  for (int r = 0; r < ranks(); ++r) height += r + 1;
  PartitionedValue value{.name = "value", .shape = {2, height, 5}};
  std::int64_t begin = 0;
  for (int r = 0; r < ranks(); ++r) {
    Slice tile = whole_of("value", value.shape);
    tile.begin[1] = begin;
    tile.size[1] = r + 1;
    begin += r + 1;
    value.tiles.push_back(tile);
    Slice needed = tile;
    needed.begin[1] = std::max<std::int64_t>(tile.begin[1] - 2, 0);
    needed.size[1] = std::min(begin + 2, height) - needed.begin[1];
    value.needed.push_back(needed);
  }
  value.exchanged = ranks() > 1;
  return value;
}

Tensor rows_of(const Tensor& batch, const Slice& part) {
  return batch.narrow(2, part.begin[1], part.size[1]);
}

// As it is computed from, by a rank: other numbers on each.
Tensor factors_of(int of, at::IntArrayRef shape) {
  torch::manual_seed(100 + static_cast<std::uint64_t>(of));
  return torch::randn(shape, torch::kDouble);
}

TEST(Fetch, BringsPartsAndTakesGradientsBack) {
  constexpr std::int64_t kRows = 3;
  const auto me = static_cast<std::size_t>(rank());
  const PartitionedValue value = rows_of_an_image();
  torch::manual_seed(5);
  const Tensor whole = torch::randn({kRows, 2, value.shape[1], 5}, torch::kDouble);
  Links links(test_world().communicator());
  // In one box, and in two with a row between them that nobody reads; two tensors at a time.
  for (const bool in_two : {false, true}) {
    const Tensor tile = rows_of(whole, value.tiles[me]).clone().requires_grad_();
    const Tensor other = (3 * tile.detach()).requires_grad_();
    const auto boxes_of = [&](int r) {
      const std::int64_t height = value.needed[static_cast<std::size_t>(r)].size[1];
      std::vector<Box> boxes{{{0, 0, 0, 0}, {kRows, 2, height, 5}}};
      if (in_two && height > 2)
        boxes = {{{0, 0, 0, 0}, {kRows, 2, 1, 5}}, {{0, 0, 2, 0}, {kRows, 2, height - 2, 5}}};
      return boxes;
    };
    const auto way = [](std::uint16_t key) {
      return Fetch::Way{.key = key, .name = "value", .wire = torch::kDouble, .gradient = true};
    };
    const auto sent = links.payload(Links::Kind::activations).sent;
    const auto returned = links.payload(Links::Kind::gradients).received;
    const Route route = route_between(value, kRows, rank());
    Fetch one(links, route, way(0)), two(links, route, way(1));
    const Tensor kept = one.start(tile);
    two.start(other);
    Tensor loss = kept.sum();
    for (Fetch* fetch : {&one, &two}) {
      const auto boxes = boxes_of(rank());
      const auto got = fetch->finish(boxes);
      ASSERT_EQ(got.size(), boxes.size());
      for (std::size_t b = 0; b < boxes.size(); ++b) {
        const Tensor expected =
            rows_of(whole, value.needed[me]).narrow(2, boxes[b].begin[2], boxes[b].size[2]);
        EXPECT_TRUE(got[b].equal(fetch == &one ? expected : 3 * expected));
        const double scale = fetch == &one ? 1 : 2;
        loss = loss + scale * (got[b] * factors_of(rank(), boxes[b].size)).sum();
      }
    }
    std::vector<Tensor> tokens = one.tokens();
    tokens.insert(tokens.end(), two.tokens().begin(), two.tokens().end());
    end_of_pass(loss, tokens, {}).backward();
    // Each element has the factors of all that read it.
    Tensor sums = torch::zeros_like(whole);
    for (int r = 0; r < ranks(); ++r) {
      for (const Box& box : boxes_of(r)) {
        rows_of(sums, value.needed[static_cast<std::size_t>(r)])
            .narrow(2, box.begin[2], box.size[2])
            .add_(factors_of(r, box.size));
      }
    }
    const Tensor own = rows_of(sums, value.tiles[me]);
    EXPECT_LT((tile.grad() - own - 1).abs().max().item<double>(), 1e-12);
    EXPECT_LT((other.grad() - 2 * own).abs().max().item<double>(), 1e-12);
    const auto bytes = static_cast<std::uint64_t>(route.sent()) * 2 * 8;
    EXPECT_EQ(links.payload(Links::Kind::activations).sent - sent, bytes);
    EXPECT_EQ(links.payload(Links::Kind::gradients).received - returned, bytes);
  }
}

// On the way numbers can be narrower than where they are used.
TEST(Fetch, RoundsOnTheWayAlone) {
  const PartitionedValue value = rows_of_an_image();
  const auto me = static_cast<std::size_t>(rank());
  const Tensor whole = torch::full({1, 2, value.shape[1], 5}, 1 + 1.0 / 4096, torch::kDouble);
  Links links(test_world().communicator());
  Fetch fetch(links, route_between(value, 1, rank()),
              {.name = "value", .wire = torch::kBFloat16, .gradient = false});
  fetch.start(rows_of(whole, value.tiles[me]));
  const Tensor got = fetch.finish_all();
  Slice own = value.tiles[me];
  own.begin[1] -= value.needed[me].begin[1];
  EXPECT_TRUE(rows_of(got, own).equal(rows_of(whole, value.tiles[me])));
  EXPECT_EQ(got.eq(1).sum().item<std::int64_t>(), got.numel() - 10 * own.size[1]);
}

constexpr const char* kRecipe = R"(
name = "loss"
[model]
name = "mlp"
[data]
reader = "stripes"
[training]
batch = 1
epochs = 1
)";

struct LossCase {
  std::string task;
  double smoothing;
};

// Units of a score, from how many ranks have of them: some have none.
std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t size : sizes) begins.push_back(begins.back() + size);
  return begins;
}

TEST(DividedLoss, IsThatOfWholeRows) {
  Registry registry;
  testing_data::add_small_world(registry);
  constexpr std::int64_t kRows = 6, kClasses = 7;
  const comm::Communicator all = test_world().communicator().duplicate();
  for (const LossCase& how : {LossCase{"classification", 0}, LossCase{"classification", 0.1},
                              LossCase{"one_vs_all", 0}, LossCase{"one_vs_all", 0.2}}) {
    for (const bool last_has_all : {false, true}) {
      SCOPED_TRACE(how.task + std::to_string(how.smoothing) + (last_has_all ? " last" : ""));
      const auto task = registry.make_task(
          parse_recipe({kRecipe, "loss.toml", "/"},
                       {"task.name=" + how.task,
                        "task.options.label_smoothing=" + std::to_string(how.smoothing)},
                       registry.vocabulary(), Files::may_be_missing));
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks()), 0);
      for (std::int64_t unit = 0; unit < kClasses; ++unit)
        ++sizes[last_has_all ? sizes.size() - 1 : static_cast<std::size_t>(unit) % sizes.size()];
      const auto me = static_cast<std::size_t>(rank());
      const std::int64_t begin = begins_of(sizes)[me], size = sizes[me];
      torch::manual_seed(11);
      // So large that powers would overflow.
      const Tensor scores =
          (1000 * torch::randn({kRows, kClasses}, torch::kDouble)).set_requires_grad(true);
      const Tensor labels = how.task == "classification"
                                ? torch::randint(kClasses, {kRows}, torch::kLong)
                                : torch::randint(2, {kRows, kClasses}).to(torch::kFloat);
      const Tensor factors = torch::rand({kRows}, torch::kDouble);
      // Row by row, in one process.
      Tensor expected = torch::zeros({}, torch::kDouble);
      for (std::int64_t row = 0; row < kRows; ++row) {
        TaskBatch one;
        one.tensors["labels"] = labels.narrow(0, row, 1);
        expected = expected + factors[row] * task->loss({scores.narrow(0, row, 1)}, one);
      }
      expected.backward();
      TaskBatch batch;
      batch.tensors["labels"] = labels;
      Tensor targets = task->divided_targets(batch);
      if (targets.dim() == 2) targets = targets.narrow(1, begin, size);
      const auto reduce = [&all](const Tensor& own, comm::ReduceOp operation) {
        Tensor sum = own.contiguous().clone();
        all.allreduce(parallel::buffer_of(sum), operation);
        return sum;
      };
      const PartLoss part = task->divided_loss(scores.detach().narrow(1, begin, size), targets,
                                               factors, {begin, size, kClasses, reduce});
      EXPECT_LT((part.gradient - scores.grad().narrow(1, begin, size)).abs().sum().item<double>(),
                1e-12);
      std::vector<double> value{part.value};
      all.allreduce(comm::buffer_of(value), comm::ReduceOp::sum);
      EXPECT_NEAR(value[0], expected.item<double>(), 1e-12 * expected.item<double>());
    }
  }
}

}  // namespace
}  // namespace convoy::train
