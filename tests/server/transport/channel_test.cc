// Calls: what comes back, and when it does not.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "convoy/base/error.h"
#include "tests/server/transport/channel_fixture.h"

namespace convoy::server::transport::test {
namespace {

TEST_P(ChannelTest, AnswersComeBack) {
  const auto channel = this->channel();
  channel->wait_connected(soon());
  EXPECT_EQ(channel->shares_memory(), GetParam());
  for (const std::size_t size : {0, 1, 100, 65536, 65537, 5000000}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 / 3);
    const Answer answer = channel->call("echo", Message::copy_of(bytes), soon()).get();
    ASSERT_EQ(answer.status, Status::done) << answer.problem;
    EXPECT_EQ(answer.message.gather(), bytes);
  }
  EXPECT_THROW(channel->call("", {}, soon()), UsageError);
}

TEST_P(ChannelTest, ErrorsOfTheHandlerComeBack) {
  const auto channel = this->channel();
  const auto problem = [&](const char* method) {
    const Answer answer = channel->call(method, {}, soon()).get();
    EXPECT_EQ(answer.status, Status::failed);
    return answer.problem;
  };
  EXPECT_EQ(problem("throw"), "the disk is full");
  EXPECT_EQ(problem("fail"), "not today");
  const Answer dropped = channel->call("forget", {}, soon()).get();
  EXPECT_EQ(dropped.status, Status::lost);
  EXPECT_EQ(dropped.problem, "the server's handler gave no answer");
}

TEST_P(ChannelTest, ManyCallsFromManyThreads) {
  const auto channel = this->channel();
  constexpr int kThreads = 4, kCalls = 60;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<std::vector<std::byte>, std::future<Answer>>> calls;
      for (int i = 0; i < kCalls; ++i) {
        const std::size_t size = i % 10 == 0 ? random() % 3000000 : random() % 20000;
        std::vector<std::byte> bytes(size, static_cast<std::byte>(random()));
        auto future = channel->call("echo", Message::copy_of(bytes), soon());
        calls.emplace_back(std::move(bytes), std::move(future));
      }
      for (auto& [bytes, future] : calls) {
        if (future.get().message.gather() == bytes) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kCalls);
}

TEST_P(ChannelTest, DeadlinePasses) {
  const auto channel = this->channel();
  channel->wait_connected(soon());
  // On a busy machine the time may be over before the request has come to the server.
  std::optional<std::pair<Request, Reply>> under_way;
  for (auto time = 50ms; !under_way && time < convoy::test::patience(); time *= 2) {
    const Answer answer = channel->call("wait", {}, Clock::now() + time).get();
    EXPECT_EQ(answer.status, Status::timed_out);
    EXPECT_EQ(answer.problem, "deadline passed: server local gave no answer");
    under_way = waiting_.take_if_there();
  }
  ASSERT_TRUE(under_way);
  auto& [request, reply] = *under_way;
  EXPECT_EQ(request.peer->name, "replica 1");
  while (!reply.abandoned()) std::this_thread::yield();  // the server hears of it
  reply.send(Message::copy_of("too late"));
  EXPECT_EQ(channel->call("echo", {}, soon()).get().status, Status::done);
}

TEST_P(ChannelTest, CancelledCallsLetGoOfTheirRequest) {
  server().set_up(false);
  const auto channel = this->channel();
  auto bytes = std::make_shared<const std::vector<std::byte>>(1000);
  std::atomic<int> answers = 0;
  const auto call = [&](const char* method) {
    return channel->call(method, Message::view(*bytes, bytes), soon(),
                         [&](const Answer&) { ++answers; });
  };
  const std::uint64_t queued = call("wait");
  EXPECT_EQ(bytes.use_count(), 2);
  channel->cancel(queued);
  EXPECT_EQ(bytes.use_count(), 1);
  channel->cancel(queued);
  channel->cancel(99);
  server().set_up(true);
  const std::uint64_t under_way = call("wait");
  auto [request, reply] = waiting_.take();
  channel->cancel(under_way);
  while (!reply.abandoned()) std::this_thread::yield();  // the server hears of it
  reply.send(Message::copy_of("too late"));
  EXPECT_EQ(channel->call("echo", {}, soon()).get().status, Status::done);
  EXPECT_EQ(answers, 0);
}

TEST_P(ChannelTest, DeadlineRacesWithTheAnswer) {
  const auto channel = this->channel();
  channel->wait_connected(soon());
  constexpr int kCalls = 400;
  std::vector<std::atomic<int>> answers(kCalls);
  std::atomic<int> all = 0;
  std::thread answering([&] {
    for (int i = 0; i < kCalls; ++i) waiting_.take().second.send(Message::copy_of("x"));
  });
  for (int i = 0; i < kCalls; ++i) {
    channel->call("wait", {}, Clock::now() + 1ms + std::chrono::microseconds(i % 50 * 20),
                  [&, i](Answer answer) {
                    EXPECT_TRUE(answer.status == Status::done || answer.status == Status::timed_out)
                        << answer.problem;
                    ++answers[static_cast<std::size_t>(i)];
                    ++all;
                  });
    // Those that are too late even to be sent would never reach the thread.
    if (i % 8 == 7) std::this_thread::sleep_for(200us);
  }
  const auto until = soon();
  while (all < kCalls && Clock::now() < until) std::this_thread::sleep_for(1ms);
  // Whoever was never sent is made up for.
  std::atomic<bool> ended = false;
  std::thread rest([&] {
    while (!ended) {
      channel->call("wait", {}, soon(), [](Answer) {});
      std::this_thread::sleep_for(1ms);
    }
  });
  answering.join();
  ended = true;
  rest.join();
  for (const auto& count : answers) EXPECT_EQ(count, 1);
}

TEST_P(ChannelTest, CallsWaitForTheServer) {
  server().set_up(false);
  const auto channel = this->channel();
  auto early = channel->call("echo", Message::copy_of("early"), soon());
  std::string problem = "deadline passed: server local can't be reached";
  Answer late;
  do {  // until the first attempt has failed
    late = channel->call("echo", {}, Clock::now() + 30ms).get();
    EXPECT_EQ(late.status, Status::timed_out);
  } while (late.problem == problem);
  EXPECT_EQ(late.problem, problem + ": the stream was cut");
  EXPECT_THROW(channel->wait_connected(Clock::now() + 10ms), Failure);
  server().set_up(true);
  EXPECT_EQ(text_of(early.get().message), "early");
}

TEST_P(ChannelTest, ACutConnectionIsMadeAgain) {
  const auto channel = this->channel();
  auto under_way = channel->call("wait", {}, soon());
  auto [request, reply] = waiting_.take();
  server().cut();
  const Answer answer = under_way.get();
  EXPECT_EQ(answer.status, Status::lost);
  EXPECT_EQ(answer.problem, "server local: the connection broke: the stream was cut");
  reply.send(Message::copy_of("to nobody"));
  EXPECT_EQ(channel->call("echo", {}, soon()).get().status, Status::done);
  EXPECT_EQ(server().connections(), 2);
}

TEST_P(ChannelTest, RequestsThatWaitForCreditsSurviveACut) {
  ServerSettings settings = server_settings();
  settings.limits = {1 << 20, 1 << 20, 128 << 10};
  server_.emplace(std::move(settings));
  const auto channel = this->channel();
  std::vector<std::future<Answer>> calls;
  for (int i = 0; i < 3; ++i)
    calls.push_back(channel->call("wait", Message::of(std::vector<std::byte>(1 << 20)), soon()));
  {
    const auto first = waiting_.take();
    server().cut();
    EXPECT_EQ(calls[0].get().status, Status::lost);
  }
  for (int i = 1; i < 3; ++i) {
    auto [request, reply] = waiting_.take();
    request = {};
    reply.send({});
    EXPECT_EQ(calls[static_cast<std::size_t>(i)].get().status, Status::done);
  }
}

TEST_P(ChannelTest, MemoryOfAClientIsBounded) {
  ServerSettings settings = server_settings();
  settings.limits = {1 << 20, 3 << 20, 128 << 10};
  server_.emplace(std::move(settings));
  const auto channel = this->channel();
  constexpr int kCalls = 12;
  std::atomic<int> done = 0;
  for (int i = 0; i < kCalls; ++i) {
    channel->call("wait", Message::of(std::vector<std::byte>(1 << 20)), soon(),
                  [&](Answer answer) { done += answer.status == Status::done; });
  }
  waiting_.wait_for(2);
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_LE(waiting_.bytes(), 3u << 20);
    // Small ones pass meanwhile.
    EXPECT_EQ(channel->call("echo", Message::copy_of("x"), soon()).get().status, Status::done);
    auto [request, reply] = waiting_.take();
    reply.send({});
  }
  const auto until = soon();
  while (done < kCalls && Clock::now() < until) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(done, kCalls);
}

TEST_P(ChannelTest, SizesBeyondTheLimitsAreRefused) {
  ServerSettings settings = server_settings();
  settings.limits = {1 << 20, 1 << 20, 128 << 10};
  server_.emplace(std::move(settings));
  ChannelSettings own = channel_settings();
  own.limits = {1 << 20, 1 << 20, 128 << 10};
  Channel channel(own, std::make_unique<LocalConnector>(server()));
  Answer answer =
      channel.call("echo", Message::of(std::vector<std::byte>((1 << 20) + 1)), soon()).get();
  EXPECT_EQ(answer.status, Status::refused);
  EXPECT_EQ(answer.problem,
            "echo: a request of 1048577 bytes; the largest that server local takes is 1048576");
  answer = channel.call("size", Message::copy_of("2000000"), soon()).get();
  EXPECT_EQ(answer.status, Status::failed);
  EXPECT_EQ(answer.problem,
            "the reply has 2000000 bytes; the largest that the client takes is 1048576");
  answer = channel.call("size", Message::copy_of("1048576"), soon()).get();
  EXPECT_EQ(answer.message.size(), 1u << 20);
}

// Such a reply ends at the server, and with it the request that it was made of.
TEST_P(ChannelTest, ALargeRequestWithAReplyBeyondTheLimitIsAnsweredToo) {
  ChannelSettings own = channel_settings();
  own.limits = {1 << 20, 1 << 20, 128 << 10};
  Channel channel(own, std::make_unique<LocalConnector>(server()));
  for (int i = 0; i < 3; ++i) {
    auto call = channel.call("wait", Message::of(std::vector<std::byte>((1 << 20) + 1)), soon());
    auto [request, reply] = waiting_.take();
    // Once this is answered the handler has returned, and nobody else has the request.
    EXPECT_EQ(channel.call("echo", {}, soon()).get().status, Status::done);
    reply.send(std::move(request.message));
    const Answer answer = call.get();
    EXPECT_EQ(answer.status, Status::failed);
    EXPECT_EQ(answer.problem,
              "the reply has 1048577 bytes; the largest that the client takes is 1048576");
  }
  EXPECT_EQ(channel.call("echo", Message::of(std::vector<std::byte>(1 << 20)), soon()).get().status,
            Status::done);
}

TEST_P(ChannelTest, LimitsThatWereRaisedAreLearnedByANewConnection) {
  ServerSettings settings = server_settings();
  settings.limits = {1 << 20, 1 << 20, 128 << 10};
  server_.emplace(std::move(settings));
  const auto channel = this->channel();
  channel->wait_connected(soon());
  const auto echo = [&](std::size_t size) {
    return channel->call("echo", Message::of(std::vector<std::byte>(size)), soon());
  };
  server().set_limits({2 << 20, 2 << 20, 128 << 10});
  std::vector<std::future<Answer>> large;
  for (int i = 0; i < 3; ++i) large.push_back(echo(2 << 20));
  for (auto& call : large) {
    const Answer answer = call.get();
    EXPECT_EQ(answer.status, Status::done) << answer.problem;
    EXPECT_EQ(answer.message.size(), 2u << 20);
  }
  EXPECT_EQ(server().connections(), 2) << "one for all of them";

  // What is too large for the newest limits, too, is refused, and says so.
  const Answer answer = echo((2 << 20) + 1).get();
  EXPECT_EQ(answer.status, Status::refused);
  EXPECT_EQ(answer.problem,
            "echo: a request of 2097153 bytes; the largest that server local takes is 2097152");
  EXPECT_EQ(server().connections(), 3);
  EXPECT_EQ(echo(1 << 20).get().status, Status::done);
  EXPECT_EQ(server().connections(), 3);
}

TEST_P(ChannelTest, ARequestThatWaitsForNewLimitsCanBeGivenUp) {
  ServerSettings settings = server_settings();
  settings.limits = {1 << 20, 1 << 20, 128 << 10};
  server_.emplace(std::move(settings));
  const auto channel = this->channel();
  channel->wait_connected(soon());
  // A connection for each would take from others what they have under way: they wait for the next.
  const auto large = [] { return Message::of(std::vector<std::byte>((1 << 20) + 1)); };
  const auto began = Clock::now();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(channel->call("echo", large(), soon()).get().status, Status::refused);
  }
  EXPECT_LE(server().connections() - 1, (Clock::now() - began) / 500ms + 1);
  EXPECT_NE(channel->call("echo", large(), Clock::now() + 20ms).get().status, Status::done);
  std::atomic<int> answers = 0;
  channel->cancel(channel->call("echo", large(), soon(), [&](const Answer&) { ++answers; }));
  EXPECT_EQ(channel->call("echo", {}, soon()).get().status, Status::done);
  EXPECT_EQ(answers, 0);
}

TEST_P(ChannelTest, GivenUpRepliesFreeTheirCredits) {
  ChannelSettings own = channel_settings();
  own.limits = {4 << 20, 4 << 20, 128 << 10};
  Channel channel(own, std::make_unique<LocalConnector>(server()));
  channel.wait_connected(soon());
  for (int i = 0; i < 20; ++i) {
    // Some end before, some while, some after their reply comes.
    channel
        .call("size", Message::copy_of("4000000"),
              Clock::now() + std::chrono::microseconds(300 * i))
        .get();
  }
  EXPECT_EQ(channel.call("size", Message::copy_of("4000000"), soon()).get().message.size(),
            4000000u);
}

TEST_P(ChannelTest, OfAnotherJobOrModelIsRefused) {
  ChannelSettings own = channel_settings();
  own.identity.fingerprint = "model 2";
  Channel channel(own, std::make_unique<LocalConnector>(server()));
  const Answer answer = channel.call("echo", {}, soon()).get();
  EXPECT_EQ(answer.status, Status::refused);
  EXPECT_EQ(answer.problem,
            "server local refuses this client: the server's model is 'model', this client's is "
            "'model 2'");
  EXPECT_THROW(channel.wait_connected(soon()), Failure);
}

INSTANTIATE_TEST_SUITE_P(, ChannelTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Stream"; });

}  // namespace
}  // namespace convoy::server::transport::test
