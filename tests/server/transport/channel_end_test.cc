// Channels and servers that end while calls are under way.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "convoy/base/error.h"
#include "tests/server/transport/channel_fixture.h"

namespace convoy::server::transport::test {
namespace {

class ChannelEndTest : public ChannelTest {};

TEST_P(ChannelEndTest, EndsWithCallsUnderWay) {
  std::atomic<int> answers = 0;
  {
    const auto channel = this->channel();
    for (int i = 0; i < 20; ++i) {
      channel->call("wait", {}, soon(), [&](Answer answer) {
        EXPECT_EQ(answer.status, Status::closed);
        ++answers;
      });
    }
    waiting_.wait_for(5);
  }
  EXPECT_EQ(answers, 20);
}

TEST_P(ChannelEndTest, EndsWhileAnswersCome) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> answers = 0;
    std::atomic<bool> over = false;
    {
      const auto channel = this->channel();
      if (round % 2 == 0) channel->wait_connected(soon());
      for (int i = 0; i < 50; ++i) {
        channel->call("echo", Message::of(std::vector<std::byte>(i * 4000)), soon(), [&](Answer) {
          EXPECT_FALSE(over);
          ++answers;
        });
      }
      if (round % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    }
    over = true;
    EXPECT_EQ(answers, 50);
  }
}

TEST_P(ChannelEndTest, ACallbackDestroysTheChannel) {
  // By an answer, by a deadline, by a broken connection, and when there is none.
  for (const std::string how : {"echo", "deadline", "cut", "down"}) {
    waiting_.clear();
    server().set_up(how != "down");
    auto channel = this->channel();
    if (how != "down") channel->wait_connected(soon());
    std::promise<void> destroyed;
    std::atomic<int> others = 0;
    const auto deadline = how == "deadline" || how == "down" ? Clock::now() + 30ms : soon();
    for (int i = 0; i < 5; ++i) {
      channel->call("wait", {}, soon(), [&](Answer) { ++others; });
    }
    const std::string method = how == "echo" ? "echo" : "wait";
    channel->call(method, {}, deadline, [&](Answer) {
      channel.reset();
      destroyed.set_value();
    });
    if (how == "cut") {
      waiting_.wait_for(6);  // all are under way
      server().cut();
    }
    ASSERT_EQ(destroyed.get_future().wait_for(convoy::test::patience()), std::future_status::ready)
        << how;
    // When the channel's destructor was through, all had been answered.
    EXPECT_EQ(others, 5) << how;
  }
}

TEST_P(ChannelEndTest, ACallbackOfTheEndCallsAgain) {
  auto channel = this->channel();
  std::atomic<int> answers = 0;
  Channel* raw = channel.get();
  channel->call("wait", {}, soon(), [&, raw](Answer) {
    ++answers;
    raw->call("echo", {}, soon(), [&](Answer answer) {
      EXPECT_EQ(answer.status, Status::closed);
      ++answers;
    });
  });
  waiting_.wait_for(1);
  channel.reset();
  EXPECT_EQ(answers, 2);
}

TEST_P(ChannelEndTest, ReplyOutlivesTheServer) {
  const auto channel = this->channel();
  auto call = channel->call("wait", {}, soon());
  auto [request, reply] = waiting_.take();
  server().stop();
  EXPECT_EQ(call.get().status, Status::lost);
  EXPECT_TRUE(reply.abandoned());
  reply.send(Message::copy_of("to nobody"));
}

INSTANTIATE_TEST_SUITE_P(, ChannelEndTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Stream"; });

}  // namespace
}  // namespace convoy::server::transport::test
