// Several contributions of each rank: the bits are those of as many ranks with one each. Ranks are
// threads.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/base/scratch.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/reproducible_reference.h"

namespace convoy::comm {
namespace {

constexpr ReduceOp kEveryOperation[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max,
                                        ReduceOp::min};

// Contributions that a rank has, each at an address of its own.
struct Own {
  std::vector<std::vector<char>> memory;
  std::vector<Buffer> buffers;

  void add(std::vector<char> data, std::size_t count, Type type) {
    memory.push_back(std::move(data));
    buffers.emplace_back(memory.back().data() + 1, count, type);
  }
};

// Those number rank * each to rank * each + each - 1 of a permutation.
Own own_contributions(const Communicator& comm, std::size_t each, Type type, std::size_t count,
                      std::uint64_t turn) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto who = permutation(ranks * each, 17, turn);
  Own own;
  own.memory.reserve(each);
  for (std::size_t i = 0; i < each; ++i) {
    const std::size_t number = who[static_cast<std::size_t>(comm.rank()) * each + i];
    own.add(contribution_of(type, number, count), count, type);
  }
  return own;
}

// Of as many ranks with one each. One alone stays as it is. A byte more than there is of it.
std::vector<char> result_of_many_ranks(Type type, ReduceOp op, std::size_t all, std::size_t count) {
  std::vector<char> result(1);
  if (all > 1) {
    result = reproducible_result(type, op, all, count);
  } else {
    const std::vector<char> one = contribution_of(type, 0, count);
    result.assign(one.begin() + 1, one.end());
  }
  result.push_back('\0');
  return result;
}

bool same_bits(const Own& own, const std::vector<char>& want) {
  return std::memcmp(own.buffers[0].data, want.data(), want.size() - 1) == 0;
}

// Each algorithm with a placement of its own. Counts take turns.
void check_bits_of_several(const Communicator& comm, std::size_t each) {
  const std::size_t all = static_cast<std::size_t>(comm.size()) * each;
  const std::array<std::size_t, 4> counts{1100, 301, 1, 0};
  const auto choices = every_allreduce(comm);
  std::uint64_t turn = 0;
  for (const Type type : kFloatingTypes) {
    for (const ReduceOp op : kEveryOperation) {
      std::array<std::vector<char>, 4> results;
      for (std::size_t i = 0; i < counts.size(); ++i)
        results[i] = result_of_many_ranks(type, op, all, counts[i]);
      // All algorithms for sums, every third one for the rest.
      const std::size_t step = op == ReduceOp::sum ? 1 : 3;
      for (std::size_t c = turn % step; c < choices.size(); c += step, ++turn) {
        const std::size_t count = counts[turn % 4];
        const Own own = own_contributions(comm, each, type, count, turn);
        CommunicatorInternals::start_allreduce_of_several(comm, own.buffers, op, choices[c]).wait();
        ASSERT_TRUE(same_bits(own, results[turn % 4]))
            << testing::PrintToString(choices[c]) << ", " << name_of(op) << " of " << count << " x "
            << name_of(type) << ", " << comm.size() << " ranks with " << each << " each";
      }
    }
  }
}

// Of whole numbers, which are added as ever.
void check_whole_numbers_of_several(const Communicator& comm, std::size_t each) {
  constexpr std::size_t kCount = 700;
  for (const Type type : {Type::i32, Type::i64, Type::u8}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      for (const AllreduceChoice& choice : every_allreduce(comm)) {
        Own own;
        own.memory.reserve(each);
        for (std::size_t i = 0; i < each; ++i) {
          std::vector<char> data(kCount * size_of(type) + 1);
          const int who = comm.rank() * static_cast<int>(each) + static_cast<int>(i);
          for (std::size_t e = 0; e < kCount; ++e)
            store(type, data.data() + 1, e, reference_value(who, e));
          own.add(std::move(data), kCount, type);
        }
        CommunicatorInternals::start_allreduce_of_several(comm, own.buffers, op, choice).wait();
        for (std::size_t e = 0; e < kCount; ++e) {
          ASSERT_EQ(load(type, own.buffers[0].data, e),
                    reference_result(comm.size() * static_cast<int>(each), e, op))
              << name_of(op) << " of " << name_of(type) << ", " << testing::PrintToString(choice);
        }
      }
    }
  }
}

class Several : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  std::size_t each() const { return static_cast<std::size_t>(std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(RanksAndContributions, Several,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 2, 3)));

TEST_P(Several, HaveTheBitsOfAsManyRanks) {
  World::run_threads(ranks(), [this](World& world) {
    check_bits_of_several(world.communicator(), each());
    if (world.size() > 1) check_bits_of_several(on_hosts(world.communicator(), 1), each());
    if (world.size() == 4) check_bits_of_several(on_hosts(world.communicator(), 2), each());
  });
}

TEST_P(Several, OfWholeNumbers) {
  World::run_threads(ranks(), [this](World& world) {
    check_whole_numbers_of_several(world.communicator(), each());
    EXPECT_THROW(
        {
          std::vector<std::int32_t> data(3);
          const std::vector<Buffer> buffers(each(), Buffer(std::span(data)));
          world.communicator().allreduce_of_several(buffers, ReduceOp::average);
        },
        UsageError);
  });
}

// Calls with the same match pair up in their order, whatever they are; others in any.
TEST_P(Several, InFlightWithOthers) {
  World::run_threads(ranks(), [this](World& world) {
    constexpr std::size_t kCount = 9001;
    for (const Communicator& comm : {world.communicator(), on_hosts(world.communicator(), 1)}) {
      const std::size_t all = static_cast<std::size_t>(comm.size()) * each();
      std::vector<Own> own;
      std::vector<Operation> operations;
      std::vector<double> plain(20'000, 1 + world.rank());
      for (std::uint64_t turn = 0; turn < 4; ++turn)
        own.push_back(own_contributions(comm, each(), Type::f32, kCount, turn));
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (i == 2)
          operations.push_back(comm.start_allreduce(buffer_of(plain), ReduceOp::sum, {3, 7}));
        // Two of each match.
        const Match match{3, static_cast<std::uint16_t>(7 + i % 2)};
        operations.push_back(
            comm.start_allreduce_of_several(own[i].buffers, ReduceOp::average, match));
      }
      while (!operations.empty()) {
        operations.back().wait();
        operations.pop_back();
      }
      const auto want = result_of_many_ranks(Type::f32, ReduceOp::average, all, kCount);
      for (const Own& one : own) ASSERT_TRUE(same_bits(one, want));
      EXPECT_EQ(plain[11'111], comm.size() * (comm.size() + 1) / 2);
    }
  });
}

// More than 64 of floats need i64, and more than 512 of doubles two of these.
TEST(SeveralContributions, AreMany) {
  for (const int ranks : {1, 3}) {
    World::run_threads(ranks, [](World& world) {
      const Communicator& comm = world.communicator();
      const auto check = [&comm](Type type, std::size_t each) {
        constexpr std::size_t kCount = 90;
        const std::size_t all = static_cast<std::size_t>(comm.size()) * each;
        const auto want = result_of_many_ranks(type, ReduceOp::average, all, kCount);
        const Own own = own_contributions(comm, each, type, kCount, 5);
        comm.allreduce_of_several(own.buffers, ReduceOp::average);
        ASSERT_TRUE(same_bits(own, want)) << all << " x " << name_of(type);
      };
      check(Type::f32, 70);
      check(Type::bf16, 23);
      check(Type::f64, 180);
      check(Type::f64, 520);
    });
  }
}

TEST(SeveralContributions, FollowEachOtherInBlocks) {
  World::run_threads(2, [](World& world) {
    // A block is 4 Mi elements.
    constexpr std::size_t kCount = (std::size_t{4} << 20) + 5;
    std::vector<std::vector<float>> own;
    std::vector<Buffer> buffers;
    for (int i = 0; i < 2; ++i) {
      own.emplace_back(kCount, static_cast<float>(1 + 2 * world.rank() + i));
      own.back()[kCount - 2] = static_cast<float>(100 * i);
    }
    for (std::vector<float>& one : own) buffers.emplace_back(std::span(one));
    world.communicator().allreduce_of_several(buffers, ReduceOp::sum);
    for (const std::size_t i : {std::size_t{0}, kCount / 2, kCount - 6, kCount - 1})
      EXPECT_EQ(own[0][i], 10) << i;
    EXPECT_EQ(own[0][kCount - 2], 200);
  });
}

TEST(SeveralContributions, ThatRanksDisagreeAboutAreNamed) {
  const std::string message = test::message_of<Failure>([] {
    World::run_threads(3, [](World& world) {
      std::vector<float> data(300);
      const std::vector<Buffer> buffers(world.rank() == 1 ? 2 : 3, Buffer(std::span(data)));
      world.communicator().allreduce_of_several(buffers, ReduceOp::sum);
    });
  });
  for (const char* part :
       {"ranks disagree", "rank 1 called allreduce(sum, 2 contributions of 300 x",
        " called allreduce(sum, 3 contributions of 300 x f32)"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  World::run_threads(1, [](World& world) {
    std::vector<float> data(3);
    const std::vector<Buffer> none,
        unlike{Buffer(std::span(data)), Buffer(std::span(data).first(2))};
    const Communicator& comm = world.communicator();
    EXPECT_THROW(comm.allreduce_of_several(none, ReduceOp::sum), UsageError);
    EXPECT_EQ(
        test::message_of<UsageError>([&] { comm.allreduce_of_several(unlike, ReduceOp::sum); }),
        "contribution 1 of this rank has 2 x f32, the first one has 3 x f32");
    EXPECT_FALSE(comm.reproducible());
    EXPECT_TRUE(comm.with_reproducible(true).reproducible());
  });
}

}  // namespace
}  // namespace convoy::comm
