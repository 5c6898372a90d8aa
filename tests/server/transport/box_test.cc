// What goes into frames and comes out of them, with and against the rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "convoy/base/error.h"
#include "server/transport/hello.h"
#include "server/transport/inbox.h"
#include "server/transport/outbox.h"

namespace convoy::server::transport {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

Outgoing request(std::uint64_t call, Message message) {
  Outgoing outgoing;
  outgoing.call = call;
  outgoing.method = "push";
  outgoing.deadline = Clock::now() + 1h;
  outgoing.message = std::move(message);
  return outgoing;
}

Frame begin(std::uint64_t call, std::uint64_t size, std::size_t payload) {
  Frame frame;
  frame.header.type = FrameType::request;
  frame.header.call = call;
  frame.header.size = size;
  frame.header.payload_bytes = static_cast<std::uint32_t>(payload);
  frame.payload = Message::of(std::vector<std::byte>(payload));
  return frame;
}

Frame more(std::uint64_t call, std::size_t payload) {
  Frame frame = begin(call, 0, payload);
  frame.header.type = FrameType::more;
  return frame;
}

TEST(Message, IsReadAcrossItsParts) {
  const auto bytes = random_bytes(1000, 1);
  Message message;
  for (std::size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 2 % 97 + 1) {
    step = std::min(step, bytes.size() - at);
    message.append(Message::copy_of(std::span(bytes).subspan(at, step)));
  }
  EXPECT_EQ(message.gather(), bytes);
  std::vector<std::byte> middle(500);
  message.copy_to(middle, 123);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), bytes.begin() + 123));
  EXPECT_TRUE(Message::of({}).empty());
}

TEST(Frames, HeaderComesBackAndUnknownTypesDoNot) {
  FrameHeader header;
  header.type = FrameType::reply;
  header.status = 1;
  header.method_bytes = 0x1234;
  header.payload_bytes = 0x12345678;
  header.call = 0x1122334455667788;
  header.size = 0x99aabbccddeeff00;
  header.time_left_ms = 0xfedcba98;
  header.released_small = 0x01020304;
  header.released_large = 0x0506070809;
  auto bytes = header.encode();
  EXPECT_EQ(bytes[8], std::byte{0x88});  // little-endian
  const FrameHeader back = FrameHeader::decode(bytes);
  EXPECT_EQ(back.encode(), bytes);
  for (const int type : {0, 10, 255}) {
    bytes[0] = static_cast<std::byte>(type);
    EXPECT_THROW(FrameHeader::decode(bytes), Failure) << type;
  }
}

TEST(Boxes, MessagesComeBackWhateverTheirSizes) {
  const Limits limits;
  Outbox out;
  out.set_limits(limits);
  Inbox in(limits);
  std::map<std::uint64_t, std::vector<std::byte>> sent;
  std::uint64_t call = 0;
  for (const std::size_t size : {0, 1, 65535, 65536, 65537, 300000, 1000001}) {
    sent[++call] = random_bytes(size, static_cast<unsigned>(call));
    out.push(request(call, Message::copy_of(sent[call])));
  }
  Frame frame;
  Message gone;
  std::vector<std::uint64_t> order;
  while (out.next(100000, frame, gone)) {
    EXPECT_LE(frame.payload.size(), 100000u);
    if (frame.header.type == FrameType::request) EXPECT_EQ(frame.method, "push");
    auto arrived = in.on_frame(std::move(frame));
    if (!arrived) continue;
    EXPECT_EQ(arrived->message.gather(), sent.at(arrived->call));
    EXPECT_GT(arrived->deadline, Clock::now() + 30min);
    order.push_back(arrived->call);
    out.on_given_back(arrived->charge);
    in.give_back(arrived->charge);
  }
  // Small ones first, in their order; large ones take turns, so that the shorter is done sooner.
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(out.queued_bytes(), 0u);
}

TEST(Boxes, SendNoMoreThanThereAreCredits) {
  Limits limits{1 << 20, 1 << 20, 128 << 10};
  Outbox out;
  out.set_limits(limits);
  out.push(request(1, Message::of(std::vector<std::byte>(700 << 10))));
  out.push(request(2, Message::of(std::vector<std::byte>(700 << 10))));
  out.push(request(3, Message::of(std::vector<std::byte>(10))));
  Frame frame;
  Message gone;
  std::vector<std::uint64_t> calls;
  while (out.next(1 << 20, frame, gone)) calls.push_back(frame.header.call);
  // Not half of each of the large ones, and the small one waits for neither.
  EXPECT_EQ(calls, (std::vector<std::uint64_t>{3, 1}));
  out.on_given_back(Charge::of(700 << 10));
  ASSERT_TRUE(out.next(1 << 20, frame, gone));
  EXPECT_EQ(frame.header.call, 2u);
  EXPECT_THROW(out.on_given_back(Charge::of(800 << 10)), Failure);
}

TEST(Boxes, CreditsAreToldWithTheNextFrameOrAlone) {
  Outbox out;
  out.set_limits({});
  Frame frame;
  Message gone;
  out.give_back({100, 0});
  EXPECT_FALSE(out.next(1000, frame, gone));  // few, and small: no frame of their own
  out.push(request(1, {}));
  ASSERT_TRUE(out.next(1000, frame, gone));
  EXPECT_EQ(frame.header.released_small, 100u);
  out.give_back({0, 5});
  ASSERT_TRUE(out.next(1000, frame, gone));
  EXPECT_EQ(frame.header.type, FrameType::released);
  EXPECT_EQ(frame.header.released_large, 5u);
  EXPECT_FALSE(out.next(1000, frame, gone));
}

TEST(Boxes, AMessageIsTakenOutAtAnyStage) {
  Limits limits{1 << 20, 1 << 20, 128 << 10};
  Outbox out;
  out.set_limits(limits);
  out.push(request(1, Message::of(std::vector<std::byte>(900 << 10))));
  out.push(request(2, Message::of(std::vector<std::byte>(900 << 10))));
  Frame frame;
  Message gone;
  ASSERT_TRUE(out.next(100 << 10, frame, gone));
  EXPECT_EQ(out.remove(2).state, Outbox::State::unsent);
  EXPECT_EQ(out.remove(1).state, Outbox::State::begun);
  EXPECT_EQ(out.remove(1).state, Outbox::State::unknown);
  EXPECT_EQ(out.queued_bytes(), 0u);
  EXPECT_FALSE(out.next(100 << 10, frame, gone));
  Inbox in(limits);
  EXPECT_FALSE(in.on_frame(begin(1, 900 << 10, 100 << 10)));
  const auto dropped = in.drop(1);
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->message.size(), 100u << 10);
  EXPECT_FALSE(in.drop(1));
  EXPECT_FALSE(in.on_frame(begin(3, 1 << 20, 100 << 10)));  // there is room again
}

// Large messages come as one run of bytes, whether or not whoever receives puts them there.
TEST(Boxes, PutMessagesTogetherInOneRun) {
  const Limits limits{1 << 20, 1 << 20, 128 << 10};
  const auto bytes = random_bytes(700 << 10, 5);
  for (const bool placed : {false, true}) {
    Inbox in(limits, std::make_shared<MessageMemory>(2 << 20));
    Outbox out;
    out.set_limits(limits);
    out.push(request(1, Message::copy_of(bytes)));
    Frame frame;
    Message gone;
    std::optional<Arrived> arrived;
    while (out.next(300 << 10, frame, gone)) {
      ASSERT_FALSE(arrived);
      const auto place = in.place(frame.header);
      ASSERT_TRUE(place);
      ASSERT_EQ(place->bytes.size(), frame.payload.size());
      if (placed) {
        frame.payload.copy_to(place->bytes);
        frame.payload = Message::view(place->bytes, place->owner);
      }
      arrived = in.on_frame(std::move(frame));
    }
    ASSERT_TRUE(arrived);
    EXPECT_EQ(arrived->message.parts().size(), 1u);
    EXPECT_EQ(arrived->message.gather(), bytes);
  }
}

// Numbers behind a head of any length lie where numbers may, whatever the message begins with.
TEST(Boxes, PutTheLargestPartWhereItLayAtTheSender) {
  Limits limits;
  const auto memory = std::make_shared<MessageMemory>(std::uint64_t{8} << 20);
  alignas(64) static std::array<std::byte, std::size_t{3} << 20> values{};
  for (const std::size_t head : {1u, 6u, 63u, 64u, 1000u}) {
    for (const std::size_t size : {std::size_t{100} << 10, std::size_t{1} << 20, values.size()}) {
      for (const std::size_t from : {0u, 4u, 61u}) {
        Outbox out;
        out.set_limits(limits);
        Inbox in(limits, memory);
        Message message = Message::of(std::vector<std::byte>(head));
        message.append({std::span<const std::byte>(values).subspan(from, size - from), nullptr});
        message.append(Message::of(std::vector<std::byte>(5)));
        out.push(request(1, message));
        Frame frame;
        Message gone;
        std::optional<Arrived> arrived;
        while (out.next(64 << 10, frame, gone)) {
          const auto place = in.place(frame.header);
          ASSERT_TRUE(place);
          frame.payload.copy_to(place->bytes);
          frame.payload = Message::view(place->bytes, place->owner);
          arrived = in.on_frame(std::move(frame));
        }
        ASSERT_TRUE(arrived);
        ASSERT_EQ(arrived->message.parts().size(), 1u);
        const std::byte* begin = arrived->message.parts().front().bytes.data();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin + head) % 64, from % 64);
      }
    }
  }
}

TEST(Boxes, OnlyWhatIsInOrderHasAPlace) {
  const Limits limits{1 << 20, 1 << 20, 128 << 10};
  Inbox in(limits, std::make_shared<MessageMemory>(2 << 20));
  EXPECT_FALSE(in.place(begin(1, 10, 10).header));                      // small
  EXPECT_FALSE(in.place(begin(1, (1 << 20) + 1, 1 << 20).header));      // too large
  EXPECT_FALSE(in.place(begin(1, 100 << 10, (100 << 10) + 1).header));  // longer than it says
  EXPECT_FALSE(in.place(more(1, 100 << 10).header));                    // never began
  ASSERT_TRUE(in.place(begin(1, 900 << 10, 500 << 10).header));
  EXPECT_FALSE(in.on_frame(begin(1, 900 << 10, 500 << 10)));
  EXPECT_FALSE(in.place(begin(1, 900 << 10, 500 << 10).header));  // twice
  EXPECT_FALSE(in.place(begin(2, 900 << 10, 500 << 10).header));  // no credits
  EXPECT_FALSE(in.place(more(1, (400 << 10) + 1).header));        // more than announced
  EXPECT_TRUE(in.place(more(1, 400 << 10).header));
  EXPECT_FALSE(Inbox(limits).place(begin(1, 900 << 10, 500 << 10).header));  // as they are
}

TEST(Boxes, WhatBreaksTheRulesIsRefused) {
  const Limits limits{1 << 20, 1 << 20, 128 << 10};
  const auto refuses = [&](std::vector<Frame> good, Frame bad) {
    Inbox in(limits);
    for (Frame& frame : good) in.on_frame(std::move(frame));
    EXPECT_THROW(in.on_frame(std::move(bad)), Failure);
  };
  refuses({}, begin(1, (1 << 20) + 1, 1 << 20));                          // larger than allowed
  refuses({begin(1, 900 << 10, 1 << 19)}, begin(2, 900 << 10, 1 << 19));  // no credits
  refuses({}, more(1, 100));                                              // never began
  refuses({begin(1, 1 << 20, 1 << 19)}, begin(1, 10, 10));                // twice
  refuses({begin(1, 1 << 20, 1 << 19)}, more(1, (1 << 19) + 1));          // more than announced
  refuses({begin(1, 1 << 20, 1 << 19)}, more(1, 10));                     // in crumbs
  refuses({}, begin(1, 100, 200));
  refuses({}, begin(1, 10, 5));  // small, and in pieces
  std::vector<Frame> many;
  for (std::uint64_t call = 1; call <= (128 << 10) / Charge::kOverhead; ++call)
    many.push_back(begin(call, 0, 0));
  refuses(std::move(many), begin(1000, 0, 0));  // even empty ones cost
}

TEST(Hello, ComesBackAndNamesWhatDiffers) {
  Hello hello;
  hello.identity = {"job", "model"};
  hello.name = "replica 3";
  hello.boot = "boot";
  hello.limits.memory = 1ull << 40;
  const Hello back = Hello::decode(hello.encode());
  EXPECT_EQ(back.identity.job, "job");
  EXPECT_EQ(back.name, "replica 3");
  EXPECT_EQ(back.limits.memory, 1ull << 40);
  EXPECT_EQ(difference({"job", "model"}, back), "");
  EXPECT_EQ(difference({"other", "model"}, back),
            "the server serves job 'other', this client is of job 'job'");
  EXPECT_EQ(difference({"job", "m2"}, back),
            "the server's model is 'm2', this client's is 'model'");
  hello.version = 7;
  EXPECT_EQ(difference({"job", "model"}, Hello::decode(hello.encode())),
            "the server speaks version 1 of the protocol, this client version 7");
}

TEST(Hello, CutShortOrWithLimitsThatCantBeIsRefused) {
  Hello hello;
  hello.identity = {"job", "model"};
  const auto bytes = hello.encode().gather();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(Hello::decode(Message::copy_of(std::span(bytes).first(size))), Failure) << size;
  }
  auto wrong = bytes;
  wrong[0] ^= std::byte{1};
  EXPECT_THROW(Hello::decode(Message::of(wrong)), Failure);
  hello.limits.small_memory = 10;
  EXPECT_THROW(Hello::decode(hello.encode()), Failure);
  hello.limits = {~0ull, ~0ull, 1 << 20};
  EXPECT_THROW(Hello::decode(hello.encode()), Failure);
  EXPECT_THROW(Welcome::decode(Message::copy_of("nothing of the kind")), Failure);
  EXPECT_THROW((Limits{100, 50, 1 << 20}.check()), UsageError);
}

}  // namespace
}  // namespace convoy::server::transport
