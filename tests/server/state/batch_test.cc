// Vectors of a batch optimizer on shards.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/server/state/batch_shards.h"

namespace convoy::server {
namespace {

using namespace test;
using optim::Term;

const VectorName kStart{VectorRole::weights, 0, 0};
const VectorName kGradient{VectorRole::gradient, 0, 0};

template <typename T>
class BatchOf : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(BatchOf, Elements);

// On any number of shards all is as it is in one process's memory, bit by bit.
TYPED_TEST(BatchOf, AnyCutHasTheBitsOfOneMemory) {
  using T = TypeParam;
  constexpr std::size_t kSize = StripedVector::kStripe + 4567;
  const std::vector<T> x = random_values<T>(kSize, 1), g = random_values<T>(kSize, 2);
  const VectorName sum{VectorRole::direction, 1}, product{VectorRole::change, 1},
      none{VectorRole::step, 1}, copy{VectorRole::step, 2};
  const std::vector<Term> terms = {{0.1, kStart}, {-3.7e-5, kGradient}, {1, kStart}};
  optim::MemorySpace<T> memory(kSize);
  memory.put(kStart, x);
  memory.put(kGradient, g);
  memory.combine(sum, terms);
  memory.multiply(product, sum, kGradient);
  memory.combine(none, {});
  optim::copy(memory, copy, kGradient);
  for (const std::size_t shards : {1, 2, 5}) {
    BatchShards<T> cut(shards, kSize);
    cut.put(kStart, x);
    cut.put(kGradient, g);
    EXPECT_EQ(cut.all(combine_command(1, sum, terms)).status, Status::done);
    EXPECT_EQ(cut.all(multiply_command(2, product, sum, kGradient)).status, Status::done);
    EXPECT_EQ(cut.all(combine_command(3, none, {})).status, Status::done);
    const Term one{1, kGradient};
    EXPECT_EQ(cut.all(combine_command(4, copy, {&one, 1})).status, Status::done);
    const std::vector<VectorName> all = {kStart, kGradient, sum, product, none, copy};
    for (const VectorName& a : all) {
      expect_same_bits(cut.get(a), memory.get(a));
      for (const VectorName& b : all) {
        const optim::VectorPair pair{a, b};
        EXPECT_EQ(std::bit_cast<std::uint64_t>(cut.dot(a, b)),
                  std::bit_cast<std::uint64_t>(memory.dots({&pair, 1}).front()))
            << to_string(a) << " . " << to_string(b) << ", " << shards << " shards";
      }
    }
  }
}

// Several threads make the same vectors as one.
TYPED_TEST(BatchOf, SideBySideIsTheSame) {
  using T = TypeParam;
  constexpr std::size_t kSize = 9 * StripedVector::kStripe + 99;
  BatchShards<T> one(1, kSize), several(1, kSize);
  several.states.front().use(3, [](std::size_t parts, const ShardState::Part& part) {
    for (std::size_t i = parts; i-- > 0;) part(i);
  });
  const VectorName sum{VectorRole::direction, 1};
  const std::vector<Term> terms = {{0.3, kStart}, {2, kStart}};
  for (BatchShards<T>* each : {&one, &several}) {
    each->put(kStart, random_values<T>(kSize, 3));
    each->all(combine_command(0, sum, terms));
  }
  EXPECT_EQ(saved(one.states.front()), saved(several.states.front()));
  EXPECT_EQ(one.dot(sum, kStart), several.dot(sum, kStart));
}

TEST(Batch, ANameIsGivenOnce) {
  BatchShards<double> shards(1, 30);
  const std::vector<double> x = random_values<double>(30, 1);
  shards.put(kStart, x);
  shards.put(kStart, random_values<double>(30, 2));  // the first one won
  expect_same_bits(shards.get(kStart), x);
  const VectorName sum{VectorRole::direction, 1};
  const Term twice{2, kStart}, thrice{3, kStart};
  EXPECT_EQ(shards.all(combine_command(0, sum, {&twice, 1})).status, Status::done);
  EXPECT_EQ(shards.all(combine_command(7, sum, {&twice, 1})).status, Status::done);
  const Reply other = shards.all(combine_command(0, sum, {&thrice, 1}));
  EXPECT_EQ(other.status, Status::conflict);
  EXPECT_NE(other.message.find("'direction 1'"), std::string::npos) << other.message;
  EXPECT_EQ(shards.all(multiply_command(0, sum, kStart, kStart)).status, Status::conflict);
  EXPECT_EQ(shards.all(combine_command(0, kStart, {&twice, 1})).status, Status::conflict);
  EXPECT_EQ(shards.get(sum)[3], 2 * x[3]);
}

// As a coordinator that begins an iteration again repeats its commands.
TEST(Batch, ARepeatedNumberDoesNothing) {
  BatchShards<double> shards(1, 30);
  shards.put(kStart, random_values<double>(30, 1));
  const VectorName first{VectorRole::direction, 1}, second{VectorRole::step, 1};
  const Term twice{2, kStart};
  shards.all(combine_command(5, first, {&twice, 1}));
  shards.all(keep_command(6, {&kStart, 1}));
  shards.all(combine_command(7, second, {&twice, 1}));
  const Bytes before = saved(shards.states.front());
  shards.all(combine_command(5, first, {&twice, 1}));
  shards.all(keep_command(6, {&kStart, 1}));
  shards.all(combine_command(7, second, {&twice, 1}));
  EXPECT_EQ(shards.states.front().batch().ordinal, 7u);
  EXPECT_EQ(shards.states.front().batch().vectors, (std::vector<VectorName>{kStart, second}));
  EXPECT_EQ(saved(shards.states.front()).size(), before.size());
  // What was refused is no last one.
  EXPECT_EQ(shards.all(keep_command(8, {&first, 1})).status, Status::no_vector);
  EXPECT_EQ(shards.all(combine_command(8, first, {&twice, 1})).status, Status::done);
}

TEST(Batch, SaysWhatIsMissing) {
  ShardState shard;
  EXPECT_EQ(give(shard, space_command(Element::f64)).status, Status::not_initialized);
  give(shard, define_command(definition({slice("w", 3), slice("mean", 2, std::nullopt)})));
  EXPECT_EQ(give(shard, combine_command(0, kStart, {})).status, Status::not_initialized);
  EXPECT_EQ(give(shard, space_command(Element::f64)).status, Status::done);
  EXPECT_EQ(give(shard, space_command(Element::f64)).status, Status::done);
  EXPECT_EQ(give(shard, space_command(Element::f32)).status, Status::conflict);
  const VectorName into{VectorRole::step, 1};
  const Term term{1, kStart};
  const Reply reply = give(shard, combine_command(0, into, {&term, 1}));
  EXPECT_EQ(reply.status, Status::no_vector);
  EXPECT_NE(reply.message.find("'weights 0.0'"), std::string::npos) << reply.message;
  EXPECT_EQ(give(shard, multiply_command(0, into, kStart, kStart)).status, Status::no_vector);
  EXPECT_THROW(shard.vector(kStart), UsageError);
  const optim::VectorPair pair{kStart, kStart};
  EXPECT_THROW(shard.dots({&pair, 1}), UsageError);

  const std::vector<double> two = {1, 2}, three = {1, 2, 3};
  const std::vector<float> floats = {1, 2, 3};
  const auto put = [&](std::uint32_t slice, const BatchValues& values) {
    const BatchSlice one{slice, values};
    return give(shard, put_command(0, kStart, {&one, 1})).status;
  };
  EXPECT_EQ(put(0, batch_values(std::span(two))), Status::wrong_shape);
  EXPECT_EQ(put(0, batch_values(std::span(floats))), Status::wrong_shape);
  EXPECT_EQ(put(1, batch_values(std::span(two))), Status::wrong_shape);  // a statistic
  EXPECT_EQ(put(9, batch_values(std::span(three))), Status::wrong_shape);
  EXPECT_EQ(put(0, batch_values(std::span(three))), Status::done);
  EXPECT_EQ(shard.dots({&pair, 1}).front().value(), 14);
}

TEST(Batch, BytesThatAreNoCommandChangeNothing) {
  BatchShards<double> shards(1, 30);
  shards.put(kStart, random_values<double>(30, 1));
  const VectorName sum{VectorRole::direction, 1};
  const Term twice{2, kStart};
  for (const Bytes& good :
       {combine_command(1, sum, {&twice, 1}), multiply_command(2, sum, kStart, kStart),
        keep_command(3, {&kStart, 1}), evaluate_command(4, {1, 2}, 3),
        gradient_command({1, 2}, shards.slices(0, random_values<double>(30, 1))),
        put_command(5, kGradient, shards.slices(0, random_values<double>(30, 1)))}) {
    for (std::size_t size = 3; size < good.size(); ++size) {
      const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(give(shards.states.front(), cut).status, Status::malformed) << size;
    }
    Bytes longer = good;
    longer.push_back({});
    EXPECT_EQ(give(shards.states.front(), longer).status, Status::malformed);
  }
  Bytes role = keep_command(3, {&kStart, 1});
  role[3 + 8 + 4] = std::byte{5};
  EXPECT_EQ(give(shards.states.front(), role).status, Status::malformed);
  EXPECT_EQ(give(shards.states.front(), evaluate_command(4, {1, 2}, 0)).status, Status::malformed);
  EXPECT_EQ(give(shards.states.front(), evaluate_command(4, {-1, 2}, 1)).status, Status::malformed);
  EXPECT_EQ(shards.states.front().batch().vectors, (std::vector<VectorName>{kStart}));
  EXPECT_EQ(shards.states.front().batch().ordinal, 0u);
}

TEST(Batch, MemoryIsBounded) {
  ShardState shard(100);
  give(shard, define_command(definition({slice("w", 5)})));
  give(shard, space_command(Element::f64));
  const Reply reply = give(shard, combine_command(0, kStart, {}));
  EXPECT_EQ(reply.status, Status::done) << reply.message;
  EXPECT_EQ(give(shard, combine_command(0, kGradient, {})).status, Status::done);
  EXPECT_EQ(give(shard, combine_command(0, {VectorRole::step, 1}, {})).status, Status::full);
  EXPECT_EQ(give(shard, keep_command(0, {&kStart, 1})).status, Status::done);
  EXPECT_EQ(give(shard, combine_command(0, {VectorRole::step, 1}, {})).status, Status::done);
  EXPECT_EQ(shard.batch().bytes, 80u);
}

TEST(Batch, AnEvaluationEndsTheOneBefore) {
  BatchShards<double> shards(1, 30);
  ShardState& shard = shards.states.front();
  const std::vector<double> values = random_values<double>(30, 1);
  const auto sealed = [&](const EvaluationId& id) {
    return give(shard, gradient_command(id, shards.slices(0, values))).status;
  };
  EXPECT_FALSE(shard.batch().open);
  EXPECT_EQ(sealed({1, 0}), Status::superseded);
  EXPECT_EQ(give(shard, evaluate_command(1, {1, 0}, 7)).status, Status::done);
  EXPECT_EQ(give(shard, evaluate_command(2, {1, 0}, 7)).status, Status::done);
  EXPECT_EQ(give(shard, evaluate_command(3, {1, 0}, 8)).status, Status::conflict);
  EXPECT_FALSE(shard.batch().sealed);
  EXPECT_EQ(sealed({1, 0}), Status::done);
  EXPECT_TRUE(shard.batch().sealed);
  EXPECT_EQ(sealed({1, 0}), Status::done);
  EXPECT_EQ(give(shard, evaluate_command(4, {1, 1}, 7)).status, Status::done);
  EXPECT_EQ(sealed({2, 0}), Status::superseded);
  EXPECT_EQ(shard.batch().open, (OpenEvaluation{{1, 1}, 7, shard.applied() - 1}));
  // An iteration that is begun again.
  EXPECT_EQ(give(shard, evaluate_command(5, {1, 0}, 7)).status, Status::done);
  EXPECT_EQ(shard.batch().newest, (EvaluationId{1, 1}));
  EXPECT_TRUE(shard.batch().sealed);
  // Half a gradient is none.
  EXPECT_EQ(give(shard, evaluate_command(6, {2, 0}, 7)).status, Status::done);
  auto half = shards.slices(0, values);
  half.pop_back();
  EXPECT_EQ(give(shard, gradient_command({2, 0}, half)).status, Status::wrong_shape);
}

TEST(Batch, IsInSnapshots) {
  BatchShards<double> shards(2, 500);
  shards.put(kStart, random_values<double>(500, 1));
  const VectorName sum{VectorRole::direction, 1};
  const std::vector<Term> terms = {{0.1, kStart}, {1, kStart}};
  shards.all(combine_command(4, sum, terms));
  shards.all(evaluate_command(5, {1, 0}, 9));
  ShardState& shard = shards.states.front();
  // One slice of another vector.
  const std::vector<double> other = random_values<double>(500, 2);
  auto slices = shards.slices(0, other);
  slices.pop_back();
  give(shard, put_command(6, kGradient, slices));
  const Bytes bytes = saved(shard);
  const auto image = shard.image();
  give(shard, keep_command(7, {&sum, 1}));
  MemorySink sink;
  image->save(sink);
  EXPECT_EQ(sink.bytes, bytes);

  ShardState copy;
  MemorySource source(bytes);
  copy.load(source);
  EXPECT_TRUE(source.left.empty());
  EXPECT_EQ(saved(copy), bytes);
  EXPECT_EQ(copy.batch().vectors, (std::vector<VectorName>{kStart, sum}));
  EXPECT_EQ(copy.batch().open, (OpenEvaluation{{1, 0}, 9, shards.states[1].applied()}));
  EXPECT_EQ(copy.batch().ordinal, 6u);
  EXPECT_EQ(copy.batch().element, Element::f64);
  give(copy, keep_command(7, {&sum, 1}));
  EXPECT_EQ(saved(copy), saved(shard));
  for (const std::size_t size : {10ul, 200ul, bytes.size() - 1}) {
    MemorySource part(std::span(bytes).first(size));
    EXPECT_ANY_THROW(copy.load(part));
  }
}

// States of before there were such vectors are read.
TEST(Batch, IsNotInSnapshotsOfBefore) {
  const auto shard = shard_of(definition({slice("w", 3)}), {1, 2, 3});
  Bytes bytes = saved(*shard);
  constexpr std::size_t kHead = 2 + 8;
  std::uint64_t head = get_little_endian<std::uint64_t>(bytes.data() + 2);
  EXPECT_EQ(bytes[kHead + head - 1], std::byte{0});  // no space
  bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(kHead + head - 1));
  put_little_endian(bytes.data() + 2, head - 1);
  bytes[0] = std::byte{1};
  ShardState copy;
  MemorySource source(bytes);
  copy.load(source);
  EXPECT_EQ(saved(copy), saved(*shard));
}

}  // namespace
}  // namespace convoy::server
