// Which samples travel when, and how many bytes.
#include "train/strategies/hybrid/exchange.h"

#include <numeric>

#include "convoy/base/parts.h"
#include "tests/train/hybrid_fixture.h"
#include "train/strategies/hybrid/head.h"
#include "train/strategies/hybrid/rounds.h"

namespace convoy::train {
namespace {

TEST(Rounds, HaveEverySampleOnce) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int senders = 0; senders <= ranks; ++senders) {
      std::vector<std::size_t> shares;
      for (int r = 0; r < ranks; ++r) shares.push_back(static_cast<std::size_t>((r * 7 + 3) % 5));
      const auto rounds = plan_rounds(shares, senders);
      EXPECT_EQ(rounds.size(), senders == 0 ? 1u : static_cast<std::size_t>(ranks));
      for (std::size_t r = 0; r < shares.size(); ++r) {
        // In the order of rounds, one piece begins where the last one has ended.
        std::size_t next = 0;
        for (const Round& round : rounds) {
          if (round.pieces[r].empty()) continue;
          EXPECT_EQ(round.pieces[r].begin, next);
          next = round.pieces[r].end;
        }
        EXPECT_EQ(next, shares[r]) << ranks << " ranks, " << senders << " senders, rank " << r;
      }
    }
  }
}

TEST(Rounds, AreAsManyAsIsSaid) {
  const std::vector<std::size_t> shares{5, 0, 2};
  for (const int passes : {1, 2, 3, 5, 9}) {
    const auto rounds = plan_rounds(shares, 3, passes);
    ASSERT_EQ(rounds.size(), static_cast<std::size_t>(passes));
    for (std::size_t r = 0; r < shares.size(); ++r) {
      std::size_t next = 0;
      for (const Round& round : rounds) {
        ASSERT_EQ(round.pieces.size(), shares.size());
        EXPECT_EQ(round.pieces[r].begin, next);
        next = round.pieces[r].end;
      }
      EXPECT_EQ(next, shares[r]);
    }
  }
  EXPECT_EQ(plan_rounds(shares, 3, 3), plan_rounds(shares, 3));
  EXPECT_EQ(plan_rounds(shares, 3, 1), plan_rounds(shares, 0));
}

// However many there are in training: each reads all divided weights.
TEST(Rounds, OfInferenceAreNoMoreThanAreUnderWay) {
  const std::vector<std::size_t> shares{5, 0, 2};
  EXPECT_EQ(plan_inference_rounds(shares, 0), plan_rounds(shares, 0));
  EXPECT_EQ(plan_inference_rounds(shares, 1), plan_rounds(shares, 3));
  EXPECT_EQ(plan_inference_rounds(shares, 3), plan_rounds(shares, 3));
  EXPECT_EQ(plan_inference_rounds(shares, 3, 2), plan_rounds(shares, 3, 2));
  EXPECT_EQ(plan_inference_rounds(shares, 3, 64), plan_rounds(shares, 3, 4));
  const std::vector<std::size_t> many(32, 8);
  EXPECT_EQ(plan_inference_rounds(many, 32), plan_rounds(many, 32, 4));
}

TEST(Rounds, HaveAsManySenders) {
  const std::vector<std::size_t> shares(6, 60);
  for (int senders = 1; senders <= 6; ++senders) {
    for (const Round& round : plan_rounds(shares, senders)) {
      EXPECT_EQ(round.samples(), 60u);
      int sending = 0;
      for (const data::Range& piece : round.pieces) sending += piece.empty() ? 0 : 1;
      EXPECT_EQ(sending, senders);
    }
  }
  EXPECT_EQ(plan_rounds(shares, 1)[4].pieces[4], (data::Range{0, 60}));
  EXPECT_EQ(plan_rounds(shares, 6)[4].pieces[2], (data::Range{40, 50}));
  EXPECT_EQ(plan_rounds(shares, 0)[0].samples(), 360u);
}

// A transfer takes the place of another one that is under way.
TEST(Transfers, EndBeforeTheirTensorsGo) {
  Exchange exchange(test_world().communicator());
  const auto elements = static_cast<std::size_t>(1) << 20;
  const std::vector<std::size_t> counts(static_cast<std::size_t>(exchange.size()), elements);
  std::vector<float> memory(elements);
  Exchange::Transfer transfer;
  bool freed = false, under_way = false;
  {
    const torch::Tensor mine =
        torch::from_blob(memory.data(), {static_cast<std::int64_t>(elements)}, [&](void*) {
          freed = true;
          under_way = transfer.valid();
        });
    transfer = exchange.start_to_all(Exchange::Kind::activations, 0, mine, counts);
  }
  EXPECT_FALSE(freed);
  transfer = Exchange::Transfer();
  EXPECT_TRUE(freed);
  EXPECT_FALSE(under_way);
}

class HybridExchangeTest : public HybridTest {
 protected:
  static constexpr std::int64_t kWidth = 64;  // of the boundary
  static constexpr std::size_t kElement = 8;

  // Sums over ranks.
  static std::vector<std::int64_t> everyone(std::int64_t mine) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(ranks()), 0);
    values[static_cast<std::size_t>(test_world().rank())] = mine;
    all().allreduce(comm::buffer_of(values), comm::ReduceOp::sum);
    return values;
  }

  // What one training pass has this rank send, with so many samples on each rank.
  struct Counted {
    std::map<Exchange::Kind, Exchange::Payload> payload;
    std::map<std::string, std::int64_t> spans;               // bytes of each, by name
    std::map<std::string, std::pair<double, double>> times;  // begin and end of each
  };
  Counted count(int senders, const std::vector<std::size_t>& shares, std::int64_t views = 1,
                const Overrides& how = {}) {
    const Recipe r = net("counted", how);
    const Compute compute(r);
    const TaskFacts facts;
    const auto blueprint = hybrid_network({8, {1, 6, 6}, r.model.options, facts, 1});
    SplitNetwork network(blueprint, blueprint.inputs, {}, 1, test_world().rank(), ranks());
    network.move_head(torch::kCPU, torch::kDouble);
    Exchange exchange(all());
    Timeline timeline;
    exchange.set_timeline(&timeline);
    Head head(network, exchange, compute, torch::kDouble);
    HeadInput input;
    input.rounds = plan_rounds(shares, senders);
    const std::size_t own = shares[static_cast<std::size_t>(test_world().rank())];
    input.views = views;
    input.activations =
        torch::rand({static_cast<std::int64_t>(own) * views, kWidth}, torch::kDouble);
    HeadStep step;
    const std::vector<std::size_t> numbers(own, 0);
    step.samples = numbers;
    step.gradient_of_scores = [](std::size_t, const torch::Tensor& scores) {
      return torch::ones_like(scores);
    };
    const torch::Tensor gradient = head.train(input, step);
    EXPECT_EQ(gradient.sizes(), input.activations.sizes());
    Counted counted;
    for (const auto kind : {Exchange::Kind::activations, Exchange::Kind::gradients,
                            Exchange::Kind::between, Exchange::Kind::scores})
      counted.payload[kind] = exchange.payload(kind);
    const auto events =
        nlohmann::json::parse("[" + timeline.events(0, "host", timeline.begin()) + "]");
    for (const auto& event : events) {
      if (event.value("ph", "") == "X" && event.contains("args") && event["args"].contains("bytes"))
        counted.spans[event["name"]] += event["args"]["bytes"].get<std::int64_t>();
      if (event.value("ph", "") != "X") continue;
      const double begin = event.at("ts").get<double>();
      counted.times[event["name"]] = {begin, begin + event.at("dur").get<double>()};
    }
    return counted;
  }
};

// Every rank has n (K - 1) A values for others, and others as many for it, each way.
TEST_F(HybridExchangeTest, PayloadIsTheSameUnderEveryScheme) {
  const auto k = static_cast<std::size_t>(ranks());
  const std::size_t n = 12 * k;
  const std::vector<std::size_t> shares(k, n);
  const std::size_t boundary = n * (k - 1) * kWidth * kElement;
  for (int senders = 0; senders <= ranks(); ++senders) {
    Counted counted = count(senders, shares);
    for (const auto kind : {Exchange::Kind::activations, Exchange::Kind::gradients}) {
      EXPECT_EQ(counted.payload[kind].sent, boundary) << senders;
      EXPECT_EQ(counted.payload[kind].received, boundary) << senders;
    }
    // The busiest sender of a round: all it has in (b), a K-th of it in (c).
    const auto most = senders == 0 ? boundary : boundary / static_cast<std::size_t>(senders);
    for (std::size_t j = 0; j < (senders == 0 ? 1 : k); ++j) {
      const auto sent = everyone(counted.spans["activations " + std::to_string(j)]);
      EXPECT_EQ(*std::max_element(sent.begin(), sent.end()), static_cast<std::int64_t>(most))
          << senders << " senders, round " << j;
      const auto back = everyone(counted.spans["gradients " + std::to_string(j)]);
      EXPECT_EQ(std::accumulate(back.begin(), back.end(), std::int64_t{0}),
                std::accumulate(sent.begin(), sent.end(), std::int64_t{0}));
    }
    // Counted apart: each rank's units of the 11 and 9 that follow, to all others, and their
    // gradients back; and the 8 scores, which one rank gets.
    const std::size_t units =
        static_cast<std::size_t>(units_of(11, {}, test_world().rank(), ranks()).size +
                                 units_of(9, {}, test_world().rank(), ranks()).size);
    const std::size_t between = n * k * kElement * (units * (k - 1) + (20 - units));
    EXPECT_EQ(counted.payload[Exchange::Kind::between].sent, between) << senders;
    const auto classes =
        static_cast<std::size_t>(units_of(8, {}, test_world().rank(), ranks()).size);
    const std::size_t scores = n * kElement * (classes * (k - 1) + (8 - classes));
    EXPECT_EQ(counted.payload[Exchange::Kind::scores].sent, scores) << senders;
  }
}

// Nobody waits for the numbers of samples before activations are on their way.
TEST_F(HybridExchangeTest, SampleNumbersTravelBesideActivations) {
  if (ranks() == 1) GTEST_SKIP() << "nothing travels";
  const std::vector<std::size_t> shares(static_cast<std::size_t>(ranks()), 12);
  const auto times = count(ranks(), shares, 1, {"model.options.dropout=0.4"}).times;
  EXPECT_LT(times.at("activations 0").first, times.at("sample numbers 0").second);
}

TEST_F(HybridExchangeTest, UnevenSharesAreCountedAsTheyAre) {
  std::vector<std::size_t> shares;
  std::size_t whole = 0;
  for (int r = 0; r < ranks(); ++r) {
    shares.push_back(r == 1 ? 0 : static_cast<std::size_t>(3 * r + 2));
    whole += shares.back();
  }
  const std::size_t own = shares[static_cast<std::size_t>(test_world().rank())];
  for (const std::size_t views : {1, 10}) {
    for (int senders = 0; senders <= ranks(); ++senders) {
      Counted counted = count(senders, shares, static_cast<std::int64_t>(views));
      const auto others = static_cast<std::size_t>(ranks() - 1);
      const auto& forth = counted.payload[Exchange::Kind::activations];
      EXPECT_EQ(forth.sent, own * others * views * kWidth * kElement);
      EXPECT_EQ(forth.received, (whole - own) * views * kWidth * kElement);
      const auto& back = counted.payload[Exchange::Kind::gradients];
      EXPECT_EQ(back.sent, forth.received);
      EXPECT_EQ(back.received, forth.sent);
    }
  }
}

}  // namespace
}  // namespace convoy::train
