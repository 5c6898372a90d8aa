// What a server costs beyond the bytes: pushes to and fetches from a shard without log and backup,
// against a plain echo of gRPC of the same bytes, in the same run.
//
//   server_bench [--repetitions N] [--sizes BYTES,...]
//
// The server is a process of its own. Each repetition measures one after the other, for each size:
//   echo     gRPC alone: a unary call with so many bytes there and back, generic byte buffers
//   tcp      a push of so many bytes (SGD), then a fetch of as many, through TCP
//   shared   the same through shared memory
//
// `convoy bench server` measures whole jobs, with coordinator, client library, backups and logs, by
// the clock. This has what that one doesn't: the processor time that server and client each use for
// an exchange, which tells also on a busy machine which side a change has made cheaper; and a
// shard's calls without the client library, so that the difference to transport_bench is what a
// shard costs.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>

#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "server/host/server.h"
#include "server/service/shard_calls.h"
#include "server/state/commands.h"
#include "server/transport/channel.h"
#include "server/transport/grpc_connector.h"
#include "tests/server/host/fake_coordinator.h"

namespace {

using namespace convoy;                     // NOLINT
using namespace convoy::server;             // NOLINT
using namespace convoy::server::transport;  // NOLINT

constexpr auto kPatience = std::chrono::seconds(60);

class EchoServer {
 public:
  EchoServer() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartRead(&buffer_); }
    void OnReadDone(bool ok) override {
      if (ok) {
        StartWrite(&buffer_);
      } else {
        Finish(grpc::Status::OK);
      }
    }
    void OnWriteDone(bool) override { Finish(grpc::Status::OK); }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer buffer_;
  };
  class Service : public grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
      return new Reactor;
    }
  };

  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

[[noreturn]] void serve(int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const EchoServer echo;
  JobPlan plan;
  plan.backups = plan.log = false;
  host::test::FakeCoordinator coordinator(plan);
  host::ServerSettings settings;
  settings.coordinator = coordinator.address();
  settings.log = convoy::Log("", convoy::Log::Level::warning);
  const host::Server server(settings);
  while (!coordinator.authority().configuration().primary) usleep(10000);
  usleep(300000);
  const std::string text = std::to_string(echo.port()) + " " + server.address() + "\n";
  if (write(out, text.data(), text.size()) < 0) _exit(1);
  while (true) pause();
}

using Exchange = std::function<void(const std::vector<float>& from, std::vector<float>& to)>;

Exchange echo_client(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto stub = std::make_shared<grpc::GenericStub>(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
  auto queue = std::make_shared<grpc::CompletionQueue>();
  return [stub, queue](const std::vector<float>& from, std::vector<float>& to) {
    grpc::ClientContext context;
    const grpc::Slice slice(from.data(), from.size() * 4, grpc::Slice::STATIC_SLICE);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub->PrepareUnaryCall(&context, "/bench/Echo", request, queue.get());
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool ok;
    queue->Next(&tag, &ok);
    if (!status.ok()) throw Failure("echo: " + status.error_message());
    std::vector<grpc::Slice> slices;
    if (!reply.Dump(&slices).ok()) throw Failure("echo: no bytes");
    std::size_t at = 0;
    for (const grpc::Slice& one : slices) {
      std::memcpy(reinterpret_cast<char*>(to.data()) + at, one.begin(), one.size());
      at += one.size();
    }
  };
}

class Shard {
 public:
  Shard(const std::string& address, bool shared) {
    ChannelSettings settings;
    settings.identity = {std::string(32, 'a'), ""};
    settings.shared_memory = shared;
    channel_ = std::make_unique<Channel>(settings, grpc_connector(address));
    channel_->wait_connected(Clock::now() + kPatience);
  }
  Message call(std::string_view method, Message request) {
    Answer answer =
        channel_->call(std::string(method), std::move(request), Clock::now() + kPatience).get();
    if (answer.status != Answer::Status::done) throw Failure(answer.problem);
    auto answered = calls::decode_answered(answer.message);
    if (answered.outcome != calls::Outcome::done) throw Failure(answered.reason);
    return answered.content;
  }
  server::Reply give(const Message& command) {
    auto reply = decode_reply(call(calls::kCommand, calls::command_request(0, command)).gather());
    if (reply.status != Status::done) throw Failure(reply.message);
    return reply;
  }

 private:
  std::unique_ptr<Channel> channel_;
};

Exchange shard_client(std::shared_ptr<Shard> shard, std::uint32_t slice, std::uint64_t client) {
  auto sequence = std::make_shared<std::uint64_t>(0);
  return [=](const std::vector<float>& from, std::vector<float>& to) {
    Push push;
    push.client = client;
    push.sequence = ++*sequence;
    push.samples = 1;
    const auto bytes = std::as_bytes(std::span(from));
    push.slices = {{slice, 0, {Encoding::f32, from.size(), bytes}}};
    // As clients do: the values are sent from where they stand.
    auto pieces = push_pieces(push);
    Message command = Message::of(std::move(pieces.at(0)));
    command.append({bytes, nullptr});
    shard->give(command);
    calls::FetchRequest request;
    request.ranges = {{slice, 0, 0, to.size()}};
    const auto fetched = calls::decode_fetched(shard->call(calls::kFetch, calls::encode(request)));
    fetched.values.copy_to(std::as_writable_bytes(std::span(to)));
  };
}

// Seconds of processor time that a process has used; its threads together. What it costs is seen
// here also on a machine that has other things to do.
double processor_s(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int repetitions, const std::vector<std::size_t>& sizes) {
  Pipe pipe = make_pipe();
  const pid_t server = fork();
  if (server == 0) serve(pipe.writing.get());
  pipe.writing.reset();
  FILE* in = fdopen(pipe.reading.release(), "r");
  int port = 0;
  char address[64];
  if (in == nullptr || std::fscanf(in, "%d %63s", &port, address) != 2)
    throw Failure("the server did not start");
  auto tcp = std::make_shared<Shard>(address, false);
  auto shared = std::make_shared<Shard>(address, true);
  Definition definition;
  for (const std::size_t size : sizes) {
    definition.slices.push_back(
        {std::to_string(size), size / 4, 0, size / 4, optim::Sgd{.lr = 0.01}});
  }
  tcp->give(Message::of(define_command(definition)));
  std::uint32_t slice = 0;
  const float zero = 0;
  for (const std::size_t size : sizes) {
    InitialSlice initial;
    initial.slice = slice++;
    initial.values = {Encoding::fill, size / 4, std::as_bytes(std::span(&zero, 1))};
    tcp->give(Message::of(initialize_command({initial})));
  }
  std::uint64_t client = 0;
  slice = 0;
  for (const std::size_t size : sizes) {
    std::vector<std::pair<std::string, Exchange>> kinds{{"echo", echo_client(port)}};
    for (const auto& [name, shard] : {std::pair{"tcp", tcp}, std::pair{"shared", shared}}) {
      tcp->give(Message::of(join_command(++client, name)));
      kinds.emplace_back(name, shard_client(shard, slice, client));
    }
    std::vector<float> from(size / 4, 1), to(size / 4);
    const int rounds = static_cast<int>(std::clamp<std::size_t>((256u << 20) / (size + 1), 2, 500));
    std::map<std::string, std::vector<double>> rates, times;
    std::map<std::string, double> server_s, client_s;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      for (const auto& [name, exchange] : kinds) {
        exchange(from, to);
        const double server_before = processor_s(server), client_before = processor_s(getpid());
        const auto start = Clock::now();
        for (int round = 0; round < rounds; ++round) {
          const auto begin = Clock::now();
          exchange(from, to);
          times[name].push_back(seconds_since(begin));
        }
        rates[name].push_back(2.0 * static_cast<double>(size) * rounds / seconds_since(start));
        server_s[name] += (processor_s(server) - server_before) / rounds / repetitions;
        client_s[name] += (processor_s(getpid()) - client_before) / rounds / repetitions;
      }
    }
    for (const auto& [name, exchange] : kinds) {
      std::printf(
          "%-12zu %-8s %8.3f GB/s %6.2fx  median %9.1f us, least %9.1f us; processor: server %9.1f "
          "us, client %9.1f us\n",
          size, name.c_str(), median(rates[name]) / 1e9,
          median(rates[name]) / median(rates["echo"]), median(times[name]) * 1e6,
          *std::min_element(times[name].begin(), times[name].end()) * 1e6, server_s[name] * 1e6,
          client_s[name] * 1e6);
    }
    ++slice;
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A server of parameters against a plain echo of gRPC");
  int repetitions = 5;
  std::vector<std::size_t> sizes{4096, 1 << 20, 64 << 20};
  app.add_option("--repetitions", repetitions, "of each, alternating")->check(CLI::Range(1, 1000));
  app.add_option("--sizes", sizes, "bytes, with commas between")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  try {
    return run(repetitions, sizes);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "server_bench: %s\n", e.what());
    return exit_status(e);
  }
}
