// Commands that are refused, and definitions, members, rates.
#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;
using namespace convoy::test;

TEST(Commands, GarbageChangesNothing) {
  const auto shard = shard_of(definition({slice("w", 3)}), {1, 2, 3});
  const Bytes good = push(1, 1, 0, {1, 1, 1});
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(give(*shard, cut).status, Status::malformed) << size;
  }
  Bytes longer = good;
  longer.push_back({});
  EXPECT_EQ(give(*shard, longer).status, Status::malformed);
  Bytes unknown = {std::byte{1}, std::byte{0}, std::byte{99}};
  EXPECT_EQ(give(*shard, unknown).message, "command: byte 3: no command has this number");
  Bytes newer = {std::byte{2}, std::byte{0}, std::byte{3}};
  EXPECT_NE(give(*shard, newer).message.find("version 2"), std::string::npos);
  EXPECT_EQ(values(*shard, 0, 3), (std::vector<float>{1, 2, 3}));
  // They count as commands, on every node.
  EXPECT_EQ(shard->applied(), 3 + good.size() + 3);
  EXPECT_EQ(give(*shard, good).status, Status::done);
}

TEST(Commands, ComeWithoutGaps) {
  ShardState shard;
  EXPECT_THROW(shard.apply(2, join_command(1, "")), UsageError);
  EXPECT_THROW(shard.apply(0, join_command(1, "")), UsageError);
  shard.apply(1, join_command(1, ""));
  EXPECT_THROW(shard.apply(1, join_command(1, "")), UsageError);
}

TEST(Commands, ReplyReadsBack) {
  const Reply reply{Status::fetch_again, 1, 2, 3, 4, "why", {std::byte{7}}};
  EXPECT_EQ(decode_reply(encode(reply)), reply);
  Reply long_one;
  long_one.message = std::string(kMaxMessage + 1, 'x');
  EXPECT_EQ(decode_reply(encode(long_one)).message.size(), kMaxMessage);
  EXPECT_THROW(decode_reply(Bytes(5)), UsageError);
}

Bytes joined(const std::vector<Bytes>& pieces, const std::vector<EncodedValues>& arrays) {
  EXPECT_EQ(pieces.size(), arrays.size() + 1);
  Bytes all;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    all.insert(all.end(), pieces[i].begin(), pieces[i].end());
    if (i == arrays.size()) break;
    all.insert(all.end(), arrays[i].bytes().begin(), arrays[i].bytes().end());
  }
  return all;
}

// What is sent from where it is has the same bytes as what is copied together.
TEST(Commands, PiecesAreTheCommand) {
  const std::vector<float> three = {1, 2, 3};
  const std::vector<float> none;
  const std::vector<std::byte> half(4);
  const EncodedValues f16(Encoding::f16, 2, half);
  const Push push{1, 2, 3, 4, {5, 6}, {{0, 7, encoded(three)}, {2, 8, encoded(none)}, {9, 9, f16}}};
  EXPECT_EQ(joined(push_pieces(push), {encoded(three), encoded(none), f16}), push_command(push));
  const Push empty{1, 2, 0, 0, {}, {}};
  EXPECT_EQ(joined(push_pieces(empty), {}), push_command(empty));

  const EncodedValues fill(Encoding::fill, 3, half);
  const std::vector<InitialSlice> slices = {{0, 7, encoded(three), {fill, encoded(three)}},
                                            {2, 8, encoded(none), {}}};
  EXPECT_EQ(
      joined(initialize_pieces(slices), {encoded(three), fill, encoded(three), encoded(none)}),
      initialize_command(slices));
  EXPECT_EQ(joined(initialize_pieces({}), {}), initialize_command({}));
}

TEST(Define, FirstOneCounts) {
  ShardState shard;
  const Definition first = definition({slice("w", 3), slice("mean", 2, std::nullopt)});
  EXPECT_EQ(give(shard, push(1, 1, 0, {1})).status, Status::not_member);
  EXPECT_EQ(give(shard, initialize(0, {1, 2, 3})).status, Status::not_initialized);
  EXPECT_FALSE(shard.definition().has_value());
  EXPECT_EQ(give(shard, define_command(first)).status, Status::done);
  EXPECT_EQ(give(shard, define_command(first)).status, Status::done);
  EXPECT_EQ(give(shard, define_command(definition({slice("w", 4)}))).status, Status::conflict);
  EXPECT_EQ(shard.definition(), first);
}

TEST(Define, KeepsEveryRule) {
  Definition all = definition({});
  const std::vector<std::optional<optim::Rule>> rules = {
      std::nullopt,
      optim::Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      optim::Adam{.lr = 0.2, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-7, .amsgrad = true},
      optim::AdamW{.weight_decay = 0.3},
      optim::Adagrad{.lr = 0.4, .lr_decay = 0.1, .initial_accumulator_value = 0.2, .eps = 1e-9},
      optim::SgdVelocity{.lr = 0.5, .momentum = 0.6, .weight_decay = 0.7}};
  for (const auto& rule : rules) {
    all.slices.push_back(slice("v" + std::to_string(all.slices.size()), 2, rule));
  }
  all.staleness_bound = 5;
  all.scale_by_staleness = true;
  ShardState shard;
  EXPECT_EQ(give(shard, define_command(all)).status, Status::done);
  EXPECT_EQ(shard.definition(), all);
}

TEST(Define, RefusesWhatCannotBe) {
  const auto refused = [](Definition bad) {
    ShardState shard(40);
    const Reply reply = give(shard, define_command(bad));
    EXPECT_FALSE(shard.definition().has_value());
    return reply.message;
  };
  SliceDefinition outside = slice("w", 3);
  outside.begin = 1;
  EXPECT_NE(refused(definition({outside})).find("3 elements from 1; the vector has 3"),
            std::string::npos);
  outside.begin = ~std::uint64_t{0};
  EXPECT_NE(refused(definition({outside})), "");
  EXPECT_NE(refused(definition({slice("w", 3), slice("w", 3)})).find("share element 0"),
            std::string::npos);
  EXPECT_NE(refused(definition({slice("", 3)})), "");
  EXPECT_NE(refused(definition({slice("w", 3, optim::Adam{.beta1 = 1})})), "");
  // 10 elements fit 40 bytes; one more does not, and neither do 4 with two slots.
  EXPECT_EQ(refused(definition({slice("w", 11)})), "the slices take 44 bytes; the shard has 40");
  EXPECT_NE(refused(definition({slice("w", 4, optim::Adam{})})), "");
  ShardState shard(40);
  EXPECT_EQ(give(shard, define_command(definition({slice("w", 10)}))).status, Status::done);
  SliceDefinition a{"w", 10, 0, 4, {}};
  SliceDefinition b{"w", 10, 4, 6, {}};
  ShardState two(40);
  EXPECT_EQ(give(two, define_command(definition({b, a}))).status, Status::done);
}

TEST(Initialize, FirstOneWinsWhole) {
  ShardState shard;
  give(shard, define_command(definition({slice("a", 2), slice("b", 2), slice("none", 0)})));
  EXPECT_THROW(values(shard, 0, 2), UsageError);
  EXPECT_EQ(give(shard, initialize(1, {3, 4})).status, Status::done);
  const std::vector<float> late = {9, 9};
  EXPECT_EQ(give(shard, initialize_command({{0, 0, encoded(late), {}}, {1, 7, encoded(late), {}}}))
                .status,
            Status::done);
  EXPECT_EQ(values(shard, 0, 2), late);
  EXPECT_EQ(values(shard, 1, 2), (std::vector<float>{3, 4}));
  EXPECT_EQ(shard.status().versions, (std::vector<std::uint64_t>{0, 0, 0}));
  EXPECT_EQ(give(shard, initialize(2, {})).status, Status::done);
  EXPECT_TRUE(values(shard, 2, 0).empty());
}

TEST(Initialize, RefusesWholly) {
  ShardState shard;
  give(shard, define_command(definition({slice("a", 2), slice("b", 2, optim::Adam{})})));
  const std::vector<float> two = {1, 2};
  const std::vector<float> three = {1, 2, 3};
  const std::vector<float> bad = {1, NAN};
  const auto both = [&](const std::vector<float>& b, std::vector<EncodedValues> slots = {},
                        std::uint64_t version = 0) {
    return give(shard, initialize_command(
                           {{0, 0, encoded(two), {}}, {1, version, encoded(b), std::move(slots)}}))
        .status;
  };
  EXPECT_EQ(both(three), Status::wrong_shape);
  EXPECT_EQ(both({1}), Status::wrong_shape);
  EXPECT_EQ(both(bad), Status::not_finite);
  EXPECT_EQ(both(two, {encoded(two)}), Status::wrong_shape);
  EXPECT_EQ(both(two, {encoded(two), encoded(three)}), Status::wrong_shape);
  EXPECT_EQ(both(two, {encoded(two), encoded(bad)}), Status::not_finite);
  EXPECT_EQ(both(two, {}, (std::uint64_t{1} << 61) + 1), Status::wrong_shape);
  EXPECT_EQ(give(shard, initialize(2, two)).status, Status::wrong_shape);
  EXPECT_THROW(values(shard, 0, 2), UsageError);
  EXPECT_EQ(both(two, {encoded(two), encoded(two)}, 5), Status::done);
  EXPECT_EQ(values(shard, 1, 2, 2), two);
  EXPECT_EQ(shard.status().versions[1], 5u);
}

TEST(Members, JoinLeaveForget) {
  const auto shard = shard_of(definition({slice("w", 1)}), {0});
  EXPECT_EQ(give(*shard, leave_command(7)).status, Status::not_member);
  EXPECT_EQ(give(*shard, push(1, 4, 0, {1})).status, Status::done);
  EXPECT_EQ(give(*shard, forget_command(1)).message,
            "client 1 (replica-1) is still a member; it has to leave first");
  EXPECT_EQ(give(*shard, leave_command(1)).sequence, 4u);
  EXPECT_EQ(give(*shard, push(1, 5, 1, {1})).status, Status::not_member);
  // What was decided stays so, also when it is a member again.
  EXPECT_EQ(give(*shard, join_command(1, "again")).sequence, 5u);
  EXPECT_EQ(give(*shard, push(1, 5, 1, {1})).status, Status::not_member);
  EXPECT_EQ(give(*shard, push(1, 4, 0, {1})).status, Status::superseded);
  EXPECT_EQ(give(*shard, push(1, 6, 1, {1})).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-2}));
  give(*shard, leave_command(1));
  EXPECT_EQ(give(*shard, forget_command(1)).status, Status::done);
  EXPECT_EQ(give(*shard, forget_command(1)).status, Status::done);
  EXPECT_EQ(give(*shard, push(1, 7, 2, {1})).status, Status::not_member);
  EXPECT_TRUE(shard->status().clients.empty());
}

TEST(Members, LeaveSaysHowFarAClientWas) {
  const auto shard = shard_of(definition({slice("w", 1)}), {0});
  EXPECT_EQ(read_progress(give(*shard, leave_command(1))), 0u);
  give(*shard, join_command(1, "again"));
  const std::uint64_t far = std::uint64_t{7} << 32 | 64;
  EXPECT_EQ(give(*shard, push(1, 1, 0, {1}, 1, 0, {}, far)).status, Status::done);
  EXPECT_EQ(give(*shard, push(1, 2, 1, {NAN}, 1, 0, {}, far + 1)).status, Status::not_finite);
  EXPECT_EQ(give(*shard, push(1, 3, 1, {1, 1}, 1, 0, {}, far + 2)).status, Status::wrong_shape);
  const ClientRecord now = shard->status().clients[0].client;
  EXPECT_EQ(now.progress, far);
  EXPECT_EQ(now.applied_progress, far);
  give(*shard, cut_command(1));
  EXPECT_EQ(shard->last_pushes(1), (LastPushes{{1, 3, far}}));
  const Reply left = give(*shard, leave_command(1));
  EXPECT_EQ(left.sequence, 3u);
  EXPECT_EQ(read_progress(left), far);
  EXPECT_EQ(give(*shard, push(1, 4, 1, {1}, 1, 0, {}, far + 3)).status, Status::not_member);
  EXPECT_EQ(read_progress(give(*shard, leave_command(1))), far);
  EXPECT_THROW(read_progress(give(*shard, leave_command(9))), UsageError);
}

TEST(Members, OneMoreThanFitsIsRefused) {
  ShardState shard;
  for (std::uint64_t id = 1; id <= kMaxClients; ++id) {
    ASSERT_EQ(give(shard, join_command(id, "")).status, Status::done);
  }
  EXPECT_EQ(give(shard, join_command(kMaxClients + 1, "")).status, Status::full);
  EXPECT_EQ(give(shard, join_command(3, "")).status, Status::done);
  give(shard, leave_command(3));
  give(shard, forget_command(3));
  EXPECT_EQ(give(shard, join_command(kMaxClients + 1, "")).status, Status::done);
  EXPECT_EQ(give(shard, join_command(4, std::string(kMaxClientName, 'x'))).status, Status::done);
  EXPECT_EQ(give(shard, join_command(4, std::string(kMaxClientName + 1, 'x'))).status,
            Status::malformed);
}

TEST(Rates, LaterOnesOnly) {
  const auto shard = shard_of(definition({slice("w", 1), slice("mean", 1, std::nullopt)}), {0});
  EXPECT_EQ(give(*shard, set_rates_command(10, {{0, 0.5}})).status, Status::done);
  EXPECT_EQ(give(*shard, set_rates_command(10, {{0, 7}})).status, Status::superseded);
  EXPECT_EQ(give(*shard, set_rates_command(9, {{0, 7}})).status, Status::superseded);
  EXPECT_EQ(give(*shard, set_rates_command(11, {{0, 7}, {1, 7}})).status, Status::wrong_shape);
  EXPECT_EQ(give(*shard, set_rates_command(11, {{0, 7}, {2, 7}})).status, Status::wrong_shape);
  EXPECT_EQ(give(*shard, set_rates_command(11, {{0, NAN}})).status, Status::not_finite);
  EXPECT_EQ(give(*shard, set_rates_command(11, {{0, -1}})).status, Status::not_finite);
  give(*shard, push(1, 1, 0, {1}));
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-0.5}));
  EXPECT_EQ(optim::learning_rate(*shard->definition()->slices[0].rule), 0.5);
}

TEST(Cut, KeepsValuesUntilDropped) {
  const auto shard = shard_of(definition({slice("w", 3), slice("late", 1)}), {1, 2, 3});
  give(*shard, push(1, 1, 0, {1, 1, 1}));
  const Reply cut = give(*shard, cut_command(5));
  EXPECT_EQ(cut.status, Status::done);
  give(*shard, push(1, 2, 1, {1, 1, 1}));
  give(*shard, initialize(1, {4}));
  EXPECT_EQ(give(*shard, cut_command(5)).status, Status::done);  // is the same one
  EXPECT_EQ(cut_values(*shard, 5, 0, 3), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(values(*shard, 0, 3), (std::vector<float>{-1, 0, 1}));
  EXPECT_EQ(shard->last_pushes(5), (LastPushes{{1, 1, 0}}));
  EXPECT_THROW(cut_values(*shard, 5, 1, 1), UsageError);
  EXPECT_EQ(give(*shard, drop_cut_command(5)).status, Status::done);
  EXPECT_EQ(give(*shard, drop_cut_command(5)).status, Status::done);
  EXPECT_THROW(cut_values(*shard, 5, 0, 3), UsageError);
  for (std::uint64_t id = 1; id <= kMaxCuts; ++id) {
    EXPECT_EQ(give(*shard, cut_command(id)).status, Status::done);
  }
  EXPECT_EQ(give(*shard, cut_command(9)).status, Status::full);
}

TEST(Fetch, SaysWhatIsNotThere) {
  const auto shard = shard_of(definition({slice("w", 3, optim::Adam{})}), {1, 2, 3});
  std::vector<std::byte> room(12);
  const auto fetch = [&](FetchRange range, Encoding encoding = Encoding::f32) {
    return message_of<UsageError>([&] { shard->fetch(range, encoding, room); });
  };
  EXPECT_EQ(fetch({0, 0, 0, 3}), "");
  EXPECT_EQ(fetch({0, 2, 0, 3}), "");
  EXPECT_EQ(fetch({1, 0, 0, 3}), "fetch: there is no slice 1");
  EXPECT_EQ(fetch({0, 3, 0, 3}), "fetch of 'w': it has 2 slots of state, not 3");
  EXPECT_EQ(fetch({0, 0, 1, 3}), "fetch of 'w': 3 elements from 1; the slice has 3");
  EXPECT_NE(fetch({0, 0, ~std::uint64_t{0}, 3}), "");
  EXPECT_NE(fetch({0, 0, 3, ~std::uint64_t{0}}), "");
  EXPECT_NE(fetch({0, 0, 0, 2}), "");
  EXPECT_NE(fetch({0, 0, 0, 3}, Encoding::fill), "");
  EXPECT_NE(fetch({0, 0, 0, 3}, Encoding::bf16), "");
}

}  // namespace
}  // namespace convoy::server
