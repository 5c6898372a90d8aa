// Bytes of the calls to a shard: back as they were, and refused where they end too early.
#include "server/service/shard_calls.h"

#include <gtest/gtest.h>

#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "server/service/batch_calls.h"

namespace convoy::server::calls {
namespace {

using transport::Message;

// The same bytes in parts of `size`, as a transport may deliver them.
Message in_parts(const Message& message, std::size_t size) {
  const Bytes bytes = message.gather();
  Message parts;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    parts.append(Message::copy_of(std::span(bytes).subspan(at, std::min(size, bytes.size() - at))));
  }
  return parts;
}

// Every beginning of it that is shorter than `needed` is refused; what has flipped bits is refused
// or read, as the sanitizers may see.
void damage(const Message& message, std::size_t needed,
            const std::function<void(const Message&)>& decode) {
  const Bytes bytes = message.gather();
  ASSERT_LE(needed, bytes.size());
  for (std::size_t size = 0; size < needed; ++size) {
    EXPECT_THROW(decode(Message::copy_of(std::span(bytes).first(size))), UsageError) << size;
  }
  RandomStream random(bytes.size());
  for (int i = 0; i < 2000; ++i) {
    Bytes changed = bytes;
    for (int flips = 0; flips <= i % 3; ++flips) {
      changed[random.below(changed.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    try {
      decode(Message::of(std::move(changed)));
    } catch (const UsageError&) {
    }
  }
}

void newer(const Message& message, const std::function<void(const Message&)>& decode) {
  Bytes bytes = message.gather();
  bytes[0] = std::byte{2};
  try {
    decode(Message::of(std::move(bytes)));
    ADD_FAILURE() << "another version was read";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("version 2"), std::string::npos) << error.what();
  }
}

Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST(ShardCalls, AnswersComeBack) {
  const Bytes content = some_bytes(1000);
  const Answered answer{Outcome::refused, 7, "no room", Message::copy_of(content)};
  const Message message = encode(answer);
  for (const std::size_t size : {1, 2, 5, 100, 5000}) {
    const Answered back = decode_answered(in_parts(message, size));
    EXPECT_EQ(back.outcome, Outcome::refused);
    EXPECT_EQ(back.primary, 7u);
    EXPECT_EQ(back.reason, "no room");
    EXPECT_EQ(back.content.gather(), content);
  }
  EXPECT_TRUE(decode_answered(encode(Answered{})).content.empty());
  Answered talkative;
  talkative.reason = std::string(kMaxReason + 9, 'x');
  EXPECT_EQ(decode_answered(encode(talkative)).reason.size(), kMaxReason);
  const auto decode = [](const Message& bytes) { decode_answered(bytes); };
  damage(message, message.size() - content.size(), decode);
  newer(message, decode);
  Bytes unknown = message.gather();
  unknown[2] = std::byte{5};
  EXPECT_THROW(decode_answered(Message::of(std::move(unknown))), UsageError);
}

// Neither side copies values.
TEST(ShardCalls, ValuesStayWhereTheyAre) {
  const Bytes values = some_bytes(4096);
  const Message request = command_request(3, Message::view(values, nullptr));
  EXPECT_EQ(request.parts().back().bytes.data(), values.data());
  EXPECT_EQ(shard_of(request), 3u);
  EXPECT_EQ(decode_command(request).parts().back().bytes.data(), values.data());
  EXPECT_EQ(decode_command(in_parts(request, 4)).gather(), values);

  Fetched fetched;
  fetched.versions = {1};
  fetched.sent = {true};
  fetched.values = Message::view(values, nullptr);
  const Message answer = encode(Answered{Outcome::done, 1, "", encode(fetched)});
  const Fetched back = decode_fetched(decode_answered(answer).content);
  ASSERT_EQ(back.values.parts().size(), 1u);
  EXPECT_EQ(back.values.parts().front().bytes.data(), values.data());
}

TEST(ShardCalls, RequestsNameTheirShard) {
  const Message report = report_request(70000);
  EXPECT_EQ(shard_of(report), 70000u);
  const auto decode = [](const Message& bytes) { shard_of(bytes); };
  damage(report, report.size(), decode);
  newer(report, decode);
  EXPECT_THROW(decode_command(Message::copy_of("abc")), UsageError);
}

TEST(ShardCalls, FetchesComeBack) {
  FetchRequest request{5, 9, Encoding::bf16, {{1, 2, 3, 4}, {5, 6, 7, 8}}, {10, 11}};
  const Message message = encode(request);
  const FetchRequest back = decode_fetch(in_parts(message, 3));
  EXPECT_EQ(shard_of(message), 5u);
  EXPECT_EQ(back.shard, 5u);
  EXPECT_EQ(back.cut, 9u);
  EXPECT_EQ(back.encoding, Encoding::bf16);
  ASSERT_EQ(back.ranges.size(), 2u);
  EXPECT_EQ(back.ranges[1].slice, 5u);
  EXPECT_EQ(back.ranges[1].array, 6u);
  EXPECT_EQ(back.ranges[1].begin, 7u);
  EXPECT_EQ(back.ranges[1].size, 8u);
  EXPECT_EQ(back.unless, (std::vector<std::uint64_t>{10, 11}));
  const auto decode = [](const Message& bytes) { decode_fetch(bytes); };
  damage(message, message.size(), decode);
  newer(message, decode);
  Message longer = message;
  longer.append(Message::copy_of("x"));
  EXPECT_THROW(decode_fetch(longer), UsageError);

  request.unless = {1};
  EXPECT_THROW(decode_fetch(encode(request)), UsageError);
  request.unless.clear();
  EXPECT_NO_THROW(decode_fetch(encode(request)));
  request.encoding = Encoding::fill;
  EXPECT_THROW(decode_fetch(encode(request)), UsageError);
  // What a server has to make room for adds up to something.
  request.encoding = Encoding::f32;
  request.ranges = {{0, 0, 0, kMaxFetch - 1}, {1, 0, 0, 1}};
  EXPECT_NO_THROW(decode_fetch(encode(request)));
  request.ranges[1].size = 2;
  EXPECT_THROW(decode_fetch(encode(request)), UsageError);
  request.ranges[1].size = ~std::uint64_t{0};
  EXPECT_THROW(decode_fetch(encode(request)), UsageError);
}

TEST(ShardCalls, FetchedValuesComeBack) {
  const Bytes values = some_bytes(100);
  Fetched fetched{77, {1, 2, 3}, {true, false, true}, Message::copy_of(values)};
  const Message content = encode(fetched);
  for (const std::size_t size : {1, 7, 1000}) {
    const Fetched back = decode_fetched(in_parts(content, size));
    EXPECT_EQ(back.index, 77u);
    EXPECT_EQ(back.versions, fetched.versions);
    EXPECT_EQ(back.sent, fetched.sent);
    EXPECT_EQ(back.values.gather(), values);
  }
  damage(content, content.size() - values.size(),
         [](const Message& bytes) { decode_fetched(bytes); });
}

TEST(ShardCalls, CutsComeBack) {
  const CutRequest request{4, 8, 2000, {{1, 2, 3}, {4, 5, 6}}};
  const Message message = encode(request);
  const CutRequest back = decode_cut(in_parts(message, 5));
  EXPECT_EQ(back.shard, 4u);
  EXPECT_EQ(back.cut, 8u);
  EXPECT_EQ(back.milliseconds, 2000u);
  EXPECT_EQ(back.until, request.until);
  const auto decode = [](const Message& bytes) { decode_cut(bytes); };
  damage(message, message.size(), decode);
  newer(message, decode);

  const Message pushes = encode_pushes(request.until);
  EXPECT_EQ(decode_pushes(in_parts(pushes, 1)), request.until);
  damage(pushes, pushes.size(), [](const Message& bytes) { decode_pushes(bytes); });
}

TEST(ShardCalls, ReportsComeBack) {
  ShardReport report;
  std::uint64_t next = 1;
  for (std::uint64_t* number :
       {&report.server, &report.epoch, &report.primary, &report.backup, &report.applied,
        &report.backup_lag, &report.log_bytes, &report.memory_bytes, &report.round,
        &report.fetched_bytes, &report.pushed_bytes, &report.ledger.count, &report.ledger.sum,
        &report.ledger.squares}) {
    *number = next++;
  }
  report.role = 3;
  report.versions = {next++, next++};
  for (std::uint64_t& pushes : report.staleness.pushes) pushes = next++;
  ClientRecord client{"replica-1", true,   next++, {},     next++, next++,
                      next++,      next++, next++, next++, next++};
  client.reply.message = "why";
  report.clients = {{next++, client}, {next++, {}}};
  report.cuts = {next++, next++};
  report.vectors = VectorReport{next++, next++, next++, next++};

  const Message content = encode(report);
  const ShardReport back = decode_report(in_parts(content, 11));
  EXPECT_EQ(encode(back).gather(), content.gather());
  EXPECT_EQ(back.role, 3);
  EXPECT_EQ(back.pushed_bytes, report.pushed_bytes);
  EXPECT_EQ(back.memory_bytes, report.memory_bytes);
  EXPECT_EQ(back.versions, report.versions);
  EXPECT_EQ(back.clients, report.clients);
  EXPECT_EQ(back.cuts, report.cuts);
  EXPECT_EQ(back.vectors, report.vectors);
  EXPECT_EQ(back.staleness, report.staleness);
  EXPECT_EQ(back.ledger, report.ledger);
  damage(content, content.size(), [](const Message& bytes) { decode_report(bytes); });
}

const optim::VectorName kWeights{optim::VectorRole::weights, 3, 1};
const optim::VectorName kStep{optim::VectorRole::step, 2, 0};

TEST(BatchCalls, ComeBack) {
  const Message dots = encode(DotsRequest{7, 9, {{kWeights, kStep}, {kStep, kStep}}});
  EXPECT_EQ(encode(decode_dots(in_parts(dots, 3))).gather(), dots.gather());
  damage(dots, dots.size(), [](const Message& bytes) { decode_dots(bytes); });
  const Message vector = encode(VectorRequest{7, 9, kWeights, {{1, 2, 3}, {4, 0, 5}}});
  EXPECT_EQ(encode(decode_vector(in_parts(vector, 3))).gather(), vector.gather());
  damage(vector, vector.size(), [](const Message& bytes) { decode_vector(bytes); });
  const Message seal = encode(SealRequest{7, {3, 1}, 0.25, {{0.1, kWeights}}});
  EXPECT_EQ(encode(decode_seal(in_parts(seal, 3))).gather(), seal.gather());
  damage(seal, seal.size(), [](const Message& bytes) { decode_seal(bytes); });
  const Message sealed = encode(Sealed{false, {{0, 2}, {5, 6}}});
  EXPECT_EQ(encode(decode_sealed(in_parts(sealed, 3))).gather(), sealed.gather());
  damage(sealed, sealed.size(), [](const Message& bytes) { decode_sealed(bytes); });
  BatchStatus status;
  status.element = Element::f64;
  status.ordinal = 12;
  status.open = OpenEvaluation{{3, 1}, 8, 77};
  status.newest = EvaluationId{3, 2};
  status.sealed = true;
  status.bytes = 1000;
  status.vectors = {kWeights, kStep};
  const Message told = encode(status);
  const BatchStatus back = decode_batch_status(in_parts(told, 3));
  EXPECT_EQ(encode(back).gather(), told.gather());
  EXPECT_EQ(back.open, status.open);
  EXPECT_EQ(back.newest, status.newest);
  EXPECT_EQ(back.vectors, status.vectors);
  damage(told, told.size(), [](const Message& bytes) { decode_batch_status(bytes); });
}

// Each takes half a KiB of memory there, and 26 bytes here.
TEST(BatchCalls, AskForSoManyScalarProductsAtOnce) {
  DotsRequest request;
  request.pairs.resize(kMostDots, {kWeights, kStep});
  EXPECT_EQ(decode_dots(encode(request)).pairs.size(), kMostDots);
  request.pairs.emplace_back(kWeights, kStep);
  EXPECT_THROW(decode_dots(encode(request)), UsageError);
}

}  // namespace
}  // namespace convoy::server::calls
