#include "cli/bench/server/echo.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

class Reactor final : public grpc::ServerGenericBidiReactor {
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

class Service final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor;
  }
};

}  // namespace

struct EchoServer::Impl {
  int port = 0;
  Service service;
  std::unique_ptr<grpc::Server> server;
};

EchoServer::EchoServer() : impl_(std::make_unique<Impl>()) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &impl_->port);
  builder.RegisterCallbackGenericService(&impl_->service);
  impl_->server = builder.BuildAndStart();
  if (!impl_->server) throw Failure("the echo server can't listen on 127.0.0.1");
}

EchoServer::~EchoServer() = default;

int EchoServer::port() const { return impl_->port; }

struct EchoClient::Impl {
  explicit Impl(std::shared_ptr<grpc::Channel> channel) : stub(std::move(channel)) {}
  grpc::GenericStub stub;
  grpc::CompletionQueue queue;
};

EchoClient::EchoClient(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  impl_ = std::make_unique<Impl>(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
}

EchoClient::~EchoClient() = default;

void EchoClient::exchange(std::span<const std::byte> from, std::span<std::byte> to) {
  // As it lies there: what is measured has no copy that gRPC doesn't need.
  const grpc::Slice slice(from.data(), from.size(), grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::Status status;
  auto call = impl_->stub.PrepareUnaryCall(&context, "/echo/Echo", request, &impl_->queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  impl_->queue.Next(&tag, &ok);
  if (!status.ok()) throw Failure("echo: " + status.error_message());
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok()) throw Failure("echo: no bytes came back");
  std::size_t at = 0;
  for (const grpc::Slice& one : slices) {
    if (one.size() > to.size() - at) throw Failure("echo: more bytes came back");
    std::memcpy(to.data() + at, one.begin(), one.size());
    at += one.size();
  }
  if (at != to.size()) throw Failure("echo: fewer bytes came back");
}

}  // namespace convoy::cli
