// Shared memory alone: what a peer that means harm, or none at all, can do.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "convoy/base/error.h"
#include "server/transport/shared_link.h"
#include "tests/base/patience.h"

namespace convoy::server::transport {
namespace {

using namespace std::chrono_literals;

// Sends what it is given, and keeps what comes.
class Plain : public Session {
 public:
  bool next_frame(const Link&, std::size_t, Frame& frame) override {
    const std::lock_guard lock(mutex_);
    if (out_.empty()) return false;
    frame = std::move(out_.front());
    out_.pop_front();
    return true;
  }
  bool finished() override { return false; }
  void on_frame(const Link&, Frame&& frame) override {
    const std::lock_guard lock(mutex_);
    in_.push_back(std::move(frame));
    changed_.notify_all();
  }
  void broken(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    broken_ = why;
    changed_.notify_all();
  }
  void ended(const std::string&) override {}

  void send(Frame frame) {
    const std::lock_guard lock(mutex_);
    out_.push_back(std::move(frame));
  }
  Frame receive() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, convoy::test::patience(), [&] { return !in_.empty(); }))
      throw Failure("no frame came");
    Frame frame = std::move(in_.front());
    in_.pop_front();
    return frame;
  }
  std::string why_broken() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, convoy::test::patience(), [&] { return !broken_.empty(); });
    return broken_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Frame> out_, in_;
  std::string broken_;
};

// Both sides use one mapping at one address, so that the thread sanitizer sees what they share.
class SharedTest : public testing::Test {
 protected:
  void TearDown() override {
    a_->close();
    b_->close();
    for (std::thread& thread : threads_) thread.join();
  }
  void run_both() {
    threads_.emplace_back([this] { a_->run(); });
    threads_.emplace_back([this] { b_->run(); });
  }

  std::shared_ptr<Mapping> mapping_ = SharedLink::create();
  std::shared_ptr<Plain> one_ = std::make_shared<Plain>(), other_ = std::make_shared<Plain>();
  std::shared_ptr<SharedLink> a_ =
      std::make_shared<SharedLink>(SharedLink::Side::client, mapping_, one_);
  std::shared_ptr<SharedLink> b_ =
      std::make_shared<SharedLink>(SharedLink::Side::server, mapping_, other_);
  std::vector<std::thread> threads_;
};

Frame frame_of(std::uint64_t call, std::size_t size) {
  Frame frame;
  frame.header.type = FrameType::more;
  frame.header.call = call;
  frame.header.payload_bytes = static_cast<std::uint32_t>(size);
  frame.method = call % 2 == 0 ? "a method" : "";
  frame.header.method_bytes = static_cast<std::uint16_t>(frame.method.size());
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * call);
  // In several parts, some of them short.
  Message whole = Message::of(std::move(bytes));
  for (std::size_t at = 0; at < size;) {
    const std::size_t piece = std::min<std::size_t>(size - at, at % 2 == 0 ? 1001 : 200002);
    frame.payload.append(Part{whole.parts()[0].bytes.subspan(at, piece), whole.parts()[0].owner});
    at += piece;
  }
  return frame;
}

TEST_F(SharedTest, FramesOfAllSizesPassBothWays) {
  run_both();
  constexpr std::uint64_t kFrames = 60;
  const auto size_of = [](std::uint64_t call) {
    return std::min<std::size_t>(call * call * 311, SharedLink::kMaxPayload);
  };
  // Each sends from a thread of its own, beside those that receive.
  for (auto* side : {&one_, &other_}) {
    threads_.emplace_back([&, side] {
      for (std::uint64_t call = 0; call < kFrames; ++call) {
        (*side)->send(frame_of(call, size_of(call)));
        (side == &one_ ? a_ : b_)->wake();
      }
    });
  }
  for (auto* side : {&one_, &other_}) {
    for (std::uint64_t call = 0; call < kFrames; ++call) {
      const Frame frame = (*side)->receive(), expected = frame_of(call, size_of(call));
      ASSERT_EQ(frame.header.call, call);
      ASSERT_EQ(frame.method, expected.method);
      ASSERT_TRUE(frame.payload.gather() == expected.payload.gather()) << call;
    }
  }
}

TEST_F(SharedTest, AnIndexThatCannotBeEndsIt) {
  // The server's first ring: how much the client has written.
  const std::uint64_t impossible = SharedLink::kRingBytes + 1;
  std::memcpy(mapping_->bytes().data(), &impossible, sizeof impossible);
  run_both();
  EXPECT_EQ(other_->why_broken(), "shared memory: an index that can't be");
}

TEST_F(SharedTest, FramesThatCannotBeEndIt) {
  one_->send(frame_of(1, 10));
  Frame frame = frame_of(2, 10);
  frame.header.payload_bytes = SharedLink::kMaxPayload + 1;
  one_->send(std::move(frame));
  a_->wake();
  threads_.emplace_back([this] { b_->run(); });
  EXPECT_EQ(other_->receive().header.call, 1u);
  EXPECT_EQ(other_->why_broken(), "shared memory: a frame of 1048577 bytes");
}

TEST_F(SharedTest, EndsWhileNobodyReads) {
  // More than the ring takes, and the other side never runs.
  for (std::uint64_t call = 0; call < 20; ++call) one_->send(frame_of(call, 1 << 20));
  threads_.emplace_back([this] { a_->run(); });
  a_->wake();
}

TEST(BufferPool, KeepsAndLetsGo) {
  auto pool = std::make_unique<BufferPool>(BufferPool::kPooled);
  auto first = pool->take(BufferPool::kPooled);
  const std::byte* place = first.bytes.data();
  auto second = pool->take(BufferPool::kPooled - 5);
  EXPECT_NE(second.bytes.data(), place);
  EXPECT_EQ(second.bytes.size(), BufferPool::kPooled - 5);
  first.owner.reset();
  EXPECT_EQ(pool->take(BufferPool::kPooled).bytes.data(), place);
  EXPECT_EQ(pool->take(10).bytes.size(), 10u);
  pool.reset();
  second.bytes.front() = std::byte{1};  // outlives the pool
}

}  // namespace
}  // namespace convoy::server::transport
