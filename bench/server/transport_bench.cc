// What carrying bytes costs: Convoy's transport against a plain echo of gRPC, in the same run.
//
//   transport_bench [--clients N] [--repetitions N] [--sizes BYTES,...] [--json FILE]
//
// The server is a process of its own. Each repetition measures one after the other, for each size:
//   echo     gRPC alone: a unary call with so many bytes there and back, generic byte buffers
//   tcp      a push of so many bytes, then a fetch of as many, through TCP
//   shared   the same through shared memory
// Bytes begin and end in contiguous memory of the client in each case; both servers keep what comes
// as it came, and give that back. Printed: the median of the rates (bytes there and back per
// second) with the least and the most, and what each is of the echo; for small sizes read the times
// of one exchange.
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
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "server/transport/grpc_connector.h"
#include "server/transport/listener.h"

namespace {

using namespace convoy;                     // NOLINT
using namespace convoy::server::transport;  // NOLINT
using Bytes = std::vector<std::byte>;

constexpr auto kPatience = std::chrono::seconds(60);

// gRPC's own part of the server: sends every request back.
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

// Keeps what each client pushed last as it came, and gives it back.
class Store {
 public:
  void handle(Request request, Reply reply) {
    Message message;  // what is replaced ends after the lock
    {
      const std::lock_guard lock(mutex_);
      Message& kept = clients_[request.peer->session];
      if (request.method == "push") {
        message.append(request.message);  // the parts alone: they need not count any more
        std::swap(kept, message);
      } else {
        message = kept;
      }
    }
    reply.send(request.method == "push" ? Message() : std::move(message));
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Message> clients_;
};

[[noreturn]] void serve(int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  EchoServer echo;
  Store store;
  ListenerSettings settings;
  settings.server.handler = [&](Request request, Reply reply) {
    store.handle(std::move(request), std::move(reply));
  };
  Listener listener(settings);
  const std::string text = std::to_string(echo.port()) + " " + listener.address() + "\n";
  if (write(out, text.data(), text.size()) < 0) _exit(1);
  while (true) pause();
}

// One client's way to exchange bytes: there from `from`, back into `to`.
using Exchange = std::function<void(const Bytes& from, Bytes& to)>;

Exchange echo_client(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto stub = std::make_shared<grpc::GenericStub>(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
  auto queue = std::make_shared<grpc::CompletionQueue>();
  return [stub, queue](const Bytes& from, Bytes& to) {
    grpc::ClientContext context;
    const grpc::Slice slice(from.data(), from.size(), grpc::Slice::STATIC_SLICE);
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
      if (at + one.size() > to.size()) throw Failure("echo: too many bytes");
      std::memcpy(to.data() + at, one.begin(), one.size());
      at += one.size();
    }
    if (at != to.size()) throw Failure("echo: too few bytes");
  };
}

Exchange channel_client(const std::string& address, bool shared) {
  ChannelSettings settings;
  settings.shared_memory = shared;
  auto channel = std::make_shared<Channel>(settings, grpc_connector(address));
  channel->wait_connected(Clock::now() + kPatience);
  if (channel->shares_memory() != shared) throw Failure("no shared memory");
  return [channel](const Bytes& from, Bytes& to) {
    const auto done = [](Answer answer) {
      if (answer.status != Answer::Status::done) throw Failure(answer.problem);
      return std::move(answer.message);
    };
    done(channel->call("push", Message::view(from, nullptr), Clock::now() + kPatience).get());
    const Message reply = done(channel->call("fetch", {}, Clock::now() + kPatience).get());
    if (reply.size() != to.size()) throw Failure("another number of bytes");
    reply.copy_to(to);
  };
}

struct Kind {
  std::string name;
  std::vector<Exchange> clients;
};

// Seconds of each exchange, of all clients together.
std::vector<double> measure(const Kind& kind, std::size_t size, int rounds, double& whole) {
  std::vector<std::vector<double>> seconds(kind.clients.size());
  std::vector<std::thread> threads;
  std::exception_ptr error;
  std::mutex mutex;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kind.clients.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        static thread_local Bytes from, to;
        from.assign(size, static_cast<std::byte>(i + 1));
        to.assign(size, std::byte{0});
        kind.clients[i](from, to);  // warm
        for (int round = 0; round < rounds; ++round) {
          const auto begin = Clock::now();
          kind.clients[i](from, to);
          seconds[i].push_back(seconds_since(begin));
        }
        if (from != to) throw Failure(kind.name + ": other bytes came back");
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  whole = seconds_since(start);
  if (error) std::rethrow_exception(error);
  std::vector<double> all;
  for (const auto& one : seconds) all.insert(all.end(), one.begin(), one.end());
  return all;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Figures {
  std::vector<double> rates;    // of each repetition: all clients' bytes there and back per second
  std::vector<double> seconds;  // of each exchange
};

int run(int clients, int repetitions, const std::vector<std::size_t>& sizes,
        const std::string& json) {
  Pipe pipe = make_pipe();
  const pid_t server = fork();  // before gRPC has started a thread
  if (server == 0) serve(pipe.writing.get());
  pipe.writing.reset();
  FILE* in = fdopen(pipe.reading.release(), "r");
  int port = 0;
  char address[64];
  if (in == nullptr || std::fscanf(in, "%d %63s", &port, address) != 2)
    throw Failure("the server did not start");
  std::vector<Kind> kinds{{"echo", {}}, {"tcp", {}}, {"shared", {}}};
  for (int i = 0; i < clients; ++i) {
    kinds[0].clients.push_back(echo_client(port));
    kinds[1].clients.push_back(channel_client(address, false));
    kinds[2].clients.push_back(channel_client(address, true));
  }
  std::ofstream file;
  if (!json.empty() && json != "-") file.open(json);
  std::ostream& rows = json == "-" ? std::cout : file;
  if (json != "-")
    std::printf("%-12s %-8s %10s %21s %9s %11s %11s\n", "bytes", "", "GB/s", "(least to most)",
                "of echo", "p50", "p99");
  for (const std::size_t size : sizes) {
    const int rounds = static_cast<int>(std::clamp<std::size_t>((256u << 20) / (size + 1), 2, 500));
    std::map<std::string, Figures> figures;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      for (const Kind& kind : kinds) {
        double whole = 0;
        const auto seconds = measure(kind, size, rounds, whole);
        double sum = 0;
        for (const double one : seconds) sum += one;
        Figures& one = figures[kind.name];
        // The clients run side by side: each one's rate, added up.
        one.rates.push_back(2.0 * static_cast<double>(size) * static_cast<double>(seconds.size()) /
                            sum * clients);
        one.seconds.insert(one.seconds.end(), seconds.begin(), seconds.end());
      }
    }
    for (const Kind& kind : kinds) {
      const Figures& one = figures[kind.name];
      const double rate = quantile(one.rates, 0.5);
      const double ratio = rate / quantile(figures["echo"].rates, 0.5);
      if (json != "-")
        std::printf("%-12zu %-8s %10.3f %10.3f %10.3f %8.2fx %8.1f us %8.1f us\n", size,
                    kind.name.c_str(), rate / 1e9, quantile(one.rates, 0) / 1e9,
                    quantile(one.rates, 1) / 1e9, ratio, quantile(one.seconds, 0.5) * 1e6,
                    quantile(one.seconds, 0.99) * 1e6);
      if (!json.empty())
        rows << nlohmann::json{{"bytes", size},
                               {"clients", clients},
                               {"way", kind.name},
                               {"bandwidth_gb_per_s", rate / 1e9},
                               {"of_echo", ratio},
                               {"p50_s", quantile(one.seconds, 0.5)},
                               {"p99_s", quantile(one.seconds, 0.99)}}
                    .dump()
             << "\n";
    }
  }
  kinds.clear();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  std::fclose(in);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Convoy's transport against a plain echo of gRPC");
  int clients = 1, repetitions = 5;
  std::vector<std::size_t> sizes{4096, 1 << 20, 64 << 20, 256 << 20};
  std::string json;
  app.add_option("--clients", clients, "side by side")->check(CLI::Range(1, 64));
  app.add_option("--repetitions", repetitions, "of each, alternating")->check(CLI::Range(1, 1000));
  app.add_option("--sizes", sizes, "bytes, with commas between")->delimiter(',');
  app.add_option("--json", json, "one object per row into this file; - for standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(clients, repetitions, sizes, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "transport_bench: %s\n", e.what());
    return exit_status(e);
  }
}
