// Channels and listeners over gRPC: what processes and sockets add.
#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "server/transport/address.h"
#include "server/transport/grpc_connector.h"
#include "server/transport/grpc_settings.h"
#include "server/transport/listener.h"
#include "tests/server/transport/net_fixture.h"

namespace convoy::server::transport::test {
namespace {

using namespace std::chrono_literals;
using Status = Answer::Status;

Descriptor connected_to(const std::string& address) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(Address::parse(address).port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return socket;
}

// A process that serves until it is killed.
class ServerProcess {
 public:
  ServerProcess() {
    Pipe pipe = make_pipe();
    pid_ = fork();
    if (pid_ == 0) {
      Listener listener(listener_settings());
      const std::string text = listener.address() + "\n";
      if (write(pipe.writing.get(), text.data(), text.size()) < 0) _exit(1);
      while (true) pause();
    }
    pipe.writing.reset();
    char c;
    while (read(pipe.reading.get(), &c, 1) == 1 && c != '\n') address_ += c;
  }
  ~ServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }
  void signal(int which) const {
    kill(pid_, which);
    if (which == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);  // all its threads stand still
  }

 private:
  pid_t pid_;
  std::string address_;
};

// First, since processes are forked before gRPC has threads.
class Processes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    killed = new ServerProcess;
    stopped = new ServerProcess;
  }
  static void TearDownTestSuite() {
    delete killed;
    delete stopped;
  }
  inline static ServerProcess* killed = nullptr;
  inline static ServerProcess* stopped = nullptr;
};

TEST_F(Processes, BytesComeBackThroughBothWays) {
  for (const bool shared : {false, true}) {
    Channel channel(channel_settings(shared), grpc_connector(killed->address()));
    channel.wait_connected(soon());
    EXPECT_EQ(channel.shares_memory(), shared);
    for (const std::size_t size : {0, 1, 65537, 10000000}) {
      const Answer answer = echo(channel, size);
      ASSERT_EQ(answer.status, Status::done) << answer.problem;
      EXPECT_EQ(answer.message.gather(), some_bytes(size));
    }
  }
}

TEST_F(Processes, APausedServerIsNoticedAndUsedAgain) {
  Channel channel(channel_settings(true), grpc_connector(stopped->address(), std::nullopt, 1s));
  // It may take the server a while to see which of its connections are still there; and a busy one
  // may be taken for paused.
  const auto is_used = [&] {
    const auto until = soon();
    Status status = Status::lost;
    while (status == Status::lost && Clock::now() < until) status = echo(channel).status;
    return status == Status::done;
  };
  // It is noticed after two seconds or so. A machine may stand still for longer once, but not again
  // and again.
  Answer answer;
  for (int times = 0; answer.status != Status::lost && times < 5; ++times) {
    ASSERT_TRUE(is_used());
    stopped->signal(SIGSTOP);
    answer = channel.call("echo", Message::of(some_bytes(10)), Clock::now() + 10s).get();
    stopped->signal(SIGCONT);
  }
  EXPECT_EQ(answer.status, Status::lost) << answer.problem;
  EXPECT_TRUE(is_used());
}

TEST_F(Processes, AKilledServerIsNoticed) {
  for (const bool shared : {false, true}) {
    Channel channel(channel_settings(shared), grpc_connector(killed->address()));
    ASSERT_EQ(echo(channel).status, Status::done);
    if (!shared) continue;
    killed->signal(SIGSTOP);  // so that the calls are under way for sure
    std::vector<std::future<Answer>> calls;
    for (int i = 0; i < 5; ++i)
      calls.push_back(channel.call("echo", Message::of(some_bytes(3000000)), Clock::now() + 10s));
    killed->signal(SIGKILL);
    for (auto& call : calls) {
      const Status status = call.get().status;
      // Those of which nothing had been sent wait for the server to come back.
      EXPECT_TRUE(status == Status::lost || status == Status::timed_out);
      channel.call("echo", {}, Clock::now());
      if (status == Status::lost) break;
    }
    // Once it has been tried to connect again.
    const auto until = soon();
    Answer answer;
    do {
      answer = channel.call("echo", {}, Clock::now() + 300ms).get();
      EXPECT_EQ(answer.status, Status::timed_out);
    } while (answer.problem.find("nobody listens there (connection refused)") ==
                 std::string::npos &&
             Clock::now() < until);
    EXPECT_LT(Clock::now(), until) << answer.problem;
  }
}

TEST(Net, AServerComesBackAtItsAddress) {
  std::optional<Listener> listener(std::in_place, listener_settings());
  ListenerSettings again = listener_settings();
  again.address = listener->address();
  Channel channel(channel_settings(), grpc_connector(again.address));
  EXPECT_EQ(echo(channel).status, Status::done);
  listener.reset();
  auto waiting = channel.call("echo", {}, soon());
  for (const auto until = soon(); !listener;) {
    try {
      listener.emplace(again);
    } catch (const UsageError&) {  // the port may take a moment to be free again
      if (Clock::now() > until) throw;
      std::this_thread::sleep_for(50ms);
    }
  }
  const Status status = waiting.get().status;
  EXPECT_TRUE(status == Status::done || status == Status::lost);
  EXPECT_EQ(echo(channel).status, Status::done);
}

TEST(Net, EndsInAnyOrderWithCallsUnderWay) {
  for (int round = 0; round < 12; ++round) {
    std::vector<Reply> held;  // outlive both
    std::mutex mutex;
    ListenerSettings settings = listener_settings();
    settings.server.handler = [&](Request request, Reply reply) {
      if (request.message.size() % 2 == 0) return reply.send(std::move(request.message));
      const std::lock_guard lock(mutex);
      held.push_back(std::move(reply));
    };
    std::optional<Listener> listener(std::in_place, settings);
    std::optional<Channel> channel(std::in_place, channel_settings(round % 2 == 0),
                                   grpc_connector(listener->address()));
    if (round % 3 != 0) channel->wait_connected(soon());
    std::atomic<int> answers = 0;
    constexpr int kCalls = 20;
    for (int i = 0; i < kCalls; ++i) {
      channel->call("echo", Message::of(some_bytes(static_cast<std::size_t>(i) * 90001)), soon(),
                    [&](Answer) { ++answers; });
    }
    if (round % 4 < 2) std::this_thread::sleep_for(std::chrono::milliseconds(round));
    if (round < 6) listener.reset();
    channel.reset();
    EXPECT_EQ(answers, kCalls);
    listener.reset();
    for (Reply& reply : held) {
      EXPECT_TRUE(reply.abandoned());
      reply.send({});
    }
  }
}

TEST(Net, CallbacksMayDestroyTheChannelAndHandlersTheListener) {
  for (const bool shared : {false, true}) {
    auto listener = std::make_shared<std::optional<Listener>>();
    ListenerSettings settings = listener_settings();
    std::promise<void> ended;
    settings.server.handler = [&, weak = std::weak_ptr(listener)](Request request, Reply reply) {
      if (request.method == "echo") return reply.send({});
      if (const auto strong = weak.lock()) strong->reset();
      ended.set_value();
    };
    listener->emplace(settings);
    auto channel =
        std::make_unique<Channel>(channel_settings(shared), grpc_connector((*listener)->address()));
    std::promise<void> destroyed;
    channel->call("echo", {}, soon(), [&](Answer answer) {
      EXPECT_EQ(answer.status, Status::done);
      channel.reset();
      destroyed.set_value();
    });
    ASSERT_EQ(destroyed.get_future().wait_for(convoy::test::patience()), std::future_status::ready);
    Channel second(channel_settings(shared), grpc_connector((*listener)->address()));
    auto call = second.call("end", {}, soon());
    ASSERT_EQ(ended.get_future().wait_for(convoy::test::patience()), std::future_status::ready);
    const Status status =
        call.get().status;  // the reply ends with the handler, or with the connection
    EXPECT_TRUE(status == Status::lost || status == Status::failed);
  }
}

TEST(Net, GarbageAndHalfOpenConnectionsDoNoHarm) {
  ListenerSettings settings = listener_settings();
  settings.hello_timeout = 100ms;
  Listener hasty(settings);
  settings.hello_timeout = convoy::test::patience();  // for who comes with a hello, if late
  Listener listener(settings);
  std::vector<Descriptor> open;
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    open.push_back(connected_to(listener.address()));  // and nothing more
    const Descriptor socket = connected_to(listener.address());
    std::string garbage = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int byte = 0; byte < 1000; ++byte) garbage += static_cast<char>(random());
    EXPECT_GT(send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  }
  Channel channel(channel_settings(), grpc_connector(listener.address()));
  EXPECT_EQ(echo(channel).status, Status::done);

  // Streams that say nothing, or not what they should.
  const auto refusal = [&](const std::string& method, const std::vector<std::string>& messages) {
    const bool silent = method == kStreamMethod && messages.empty();
    const std::string address = silent ? hasty.address() : listener.address();
    grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const auto next = [&] {
      void* tag;
      bool ok = false;
      queue.Next(&tag, &ok);
      return ok;
    };
    const auto stream = stub.PrepareCall(&context, method, &queue);
    stream->StartCall(nullptr);
    next();
    for (const std::string& message : messages) {
      const grpc::Slice slice(message);
      stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      next();
    }
    std::string text;
    while (true) {
      grpc::ByteBuffer buffer;
      stream->Read(&buffer, nullptr);
      if (!next()) break;
      const auto bytes = from_grpc(buffer).payload.gather();
      text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    grpc::Status status;
    stream->Finish(&status, nullptr);
    next();
    queue.Shutdown();
    while (next()) {
    }
    return text;
  };
  EXPECT_EQ(refusal(kStreamMethod, {}), "this client said no hello in time");
  EXPECT_EQ(refusal("/other/Method", {}), "there is no method /other/Method");
  EXPECT_EQ(refusal(kStreamMethod, {"short"}),
            "this client broke the protocol: a frame of 5 bytes, shorter than its header");
  EXPECT_EQ(refusal(kStreamMethod, {std::string(100, '\xff')}),
            "this client broke the protocol: a frame of type 255, which does not exist");
  EXPECT_EQ(echo(channel).status, Status::done);
}

TEST(Net, ClientsBeyondTheMostAreRefused) {
  ListenerSettings settings = listener_settings();
  settings.most_clients = 1;
  Listener listener(settings);
  Channel first(channel_settings(), grpc_connector(listener.address()));
  first.wait_connected(soon());
  EXPECT_EQ(listener.clients(), 1u);
  Channel second(channel_settings(), grpc_connector(listener.address()));
  EXPECT_NE(echo(second).problem.find("the server has 1 clients, and takes no more"),
            std::string::npos);
}

TEST(Net, AddressesThatCannotBeAreRefused) {
  const auto refused = [](const std::string& address) {
    ListenerSettings settings = listener_settings();
    settings.address = address;
    EXPECT_THROW(Listener{settings}, UsageError) << address;
  };
  refused("0.0.0.0:0");  // open to other hosts
  refused("[::]:0");
  refused("nowhere.invalid:1");
  refused("127.0.0.1");
  refused("127.0.0.1:port");
  refused("127.0.0.1:70000");
  refused("::1:70");
  const Listener listener(listener_settings());
  refused(listener.address());  // taken
  EXPECT_THROW(grpc_connector("192.0.2.1:7000"), UsageError);
  EXPECT_THROW(grpc_connector("127.0.0.1:0"), UsageError);
  EXPECT_TRUE(is_loopback(Address::parse("localhost:1")));
  EXPECT_EQ(Address::parse("[::1]:80").text(), "[::1]:80");
}

}  // namespace
}  // namespace convoy::server::transport::test
