// Waiting on a transport whose messages end only while somebody waits for them, as in a simulation.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "comm/engine/engine.h"
#include "convoy/base/error.h"
#include "convoy/comm/communicator.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "tests/base/patience.h"
#include "tests/comm/ranks_in_time.h"

namespace convoy::comm {
namespace {

// Rank 0 of two: what it receives is there after so many calls of await_message().
class SlowTransport : public Transport {
 public:
  explicit SlowTransport(int calls) : left_(calls) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  int world_rank(int rank) const override { return rank; }
  std::unique_ptr<Transport> split(int /*color*/, int /*key*/) override { return nullptr; }
  void post_note(int /*to*/, std::span<const std::byte> /*note*/) override {}
  std::optional<std::pair<int, std::vector<std::byte>>> poll_note() override {
    return std::nullopt;
  }
  bool await_message() override {
    ++calls;
    --left_;
    return true;
  }
  void abort(const std::string& /*reason*/) noexcept override {}
  bool abort_ends_process() const override { return false; }

  int calls = 0;

 protected:
  void* start_send(int /*to*/, std::uint32_t /*tag*/, std::span<const std::byte>) override {
    return nullptr;
  }
  void* start_receive(int /*from*/, std::uint32_t /*tag*/, std::span<std::byte> data) override {
    return &wanted_.emplace_back(data);
  }
  bool poll(void* request) override {
    if (left_ > 0) return false;
    const auto& data = *static_cast<std::span<std::byte>*>(request);
    std::memset(data.data(), 7, data.size());
    return true;
  }
  void cancel(void* /*request*/) noexcept override {}

 private:
  int left_;
  std::deque<std::span<std::byte>> wanted_;
};

TEST(Await, WhoWaitsLetsTheTransportBlock) {
  const auto transport = std::make_shared<SlowTransport>(3);
  const auto engine = std::make_shared<Engine>(transport, Engine::Options());
  const Communicator pair(engine, transport);
  std::array<unsigned char, 5> data{};
  pair.receive({data.data(), data.size(), Type::u8}, 1);
  for (const unsigned char byte : data) EXPECT_EQ(byte, 7);
  EXPECT_EQ(transport->calls, 3);
}

TEST(Await, NothingBlocksWhatIsThereAlready) {
  const auto transport = std::make_shared<SlowTransport>(0);
  const auto engine = std::make_shared<Engine>(transport, Engine::Options());
  const Communicator pair(engine, transport);
  std::array<unsigned char, 5> data{};
  pair.receive({data.data(), data.size(), Type::u8}, 1);
  EXPECT_EQ(data[4], 7);
  EXPECT_EQ(transport->calls, 0);
}

// Who polls waits, too: rank 1 never comes.
TEST(Await, APolledOperationTimesOut) {
  WorldOptions options;
  options.timeout = std::chrono::seconds(20);
  options.progress = Progress::caller;
  RanksInTime all(2);
  std::atomic<bool> failed = false;
  std::string message;
  const auto body = [&](World& world) {
    all.begin();
    const auto until = Clock::now() + test::patience();
    if (world.rank() == 1) {
      while (!failed && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    std::vector<float> data(10);
    Operation running = world.communicator().start_allreduce(buffer_of(data), ReduceOp::sum);
    try {
      while (!running.done() && Clock::now() < until) std::this_thread::yield();
    } catch (const Failure& e) {
      message = e.what();
    }
    failed = true;
    if (message.empty()) world.fail("never timed out");
  };
  EXPECT_THROW(all.run(body, options), Failure);
  EXPECT_NE(message.find("allreduce("), std::string::npos) << message;
  EXPECT_NE(message.find("is not done after"), std::string::npos) << message;
  EXPECT_NE(message.find("waiting for rank 1"), std::string::npos) << message;
}

// Two threads of rank 0 wait for different operations, and both ask rank 1. What it says to one is
// not forgotten when the other asks.
TEST(Await, WaitsThatAskAtTheSameTimeKeepTheirAnswers) {
  auto transports = thread_transports(2);
  StallDetector asking(*transports[0]), answering(*transports[1]);
  const StallDetector::Wait wait{
      .call = "allreduce", .missing = {1}, .timeout = std::chrono::seconds(0)};
  StallTimer first(asking.now(), wait.timeout), second(asking.now(), wait.timeout);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(asking.examine(first, wait), std::nullopt);
  ASSERT_TRUE(first.overdue);
  const auto doing = [] { return StallDetector::Doing{.what = "is at home", .waits_for = {}}; };
  EXPECT_EQ(answering.poll(doing), std::nullopt);
  EXPECT_EQ(asking.poll(doing), std::nullopt);
  EXPECT_EQ(asking.examine(second, wait), std::nullopt);
  ASSERT_TRUE(second.overdue);
  const std::string reason = asking.examine(first, wait).value_or("");
  EXPECT_NE(reason.find("rank 1 is at home"), std::string::npos) << reason;
  // The second has not been answered.
  const std::string other = asking.examine(second, wait).value_or("");
  EXPECT_NE(other.find("rank 1 does not answer"), std::string::npos) << other;
}

}  // namespace
}  // namespace convoy::comm
