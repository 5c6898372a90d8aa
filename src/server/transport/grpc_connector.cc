#include "server/transport/grpc_connector.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "convoy/base/error.h"
#include "server/transport/address.h"
#include "server/transport/completion_thread.h"
#include "server/transport/grpc_settings.h"
#include "server/transport/probe.h"

namespace convoy::server::transport {
namespace {

class ClientStream : public StreamLink {
 public:
  explicit ClientStream(std::shared_ptr<Session> session) : StreamLink(std::move(session)) {}

  void start(const std::shared_ptr<grpc::Channel>& channel, grpc::CompletionQueue& queue) {
    grpc::GenericStub stub(channel);
    stream_ = stub.PrepareCall(&context_, kStreamMethod, &queue);
    if (!stream_) throw Failure("gRPC can't begin a call");
    stream_->StartCall(beginning());
  }

 private:
  void begin_read(grpc::ByteBuffer& buffer, Event* done) override { stream_->Read(&buffer, done); }
  void begin_write(const grpc::ByteBuffer& buffer, Event* done) override {
    stream_->Write(buffer, done);
  }
  void begin_end(Event* done) override { stream_->Finish(&status_, done); }
  void cancel() override { context_.TryCancel(); }
  std::string why() const override {
    return status_.ok() ? "the server ended it" : status_.error_message();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
};

class GrpcConnector : public Connector {
 public:
  GrpcConnector(Address address, std::optional<TlsTexts> tls, Clock::duration silence)
      : address_(std::move(address)), tls_(std::move(tls)) {
    grpc::ChannelArguments arguments;
    set_common_arguments(silence,
                         [&](const char* name, int value) { arguments.SetInt(name, value); });
    // Each channel has a connection of its own, through no proxy; when to try again is its
    // decision.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // how long one attempt may take
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    if (tls_) {
      credentials = grpc::SslCredentials({tls_->authority, tls_->key, tls_->certificate});
    } else {
      credentials = grpc::InsecureChannelCredentials();
    }
    channel_ = grpc::CreateCustomChannel(address_.text(), credentials, arguments);
    thread_.emplace(std::make_unique<grpc::CompletionQueue>());
  }

  std::string address() const override { return address_.text(); }

  void connect(std::shared_ptr<ClientSession> session) override {
    const auto stream = std::make_shared<ClientStream>(session);
    session->attach(stream);
    stream->start(channel_, thread_->queue());
  }

  Diagnosis diagnose() override { return probe(address_, tls_); }

  void shut_down() override {
    thread_.reset();
    channel_.reset();
  }

 private:
  const Address address_;
  const std::optional<TlsTexts> tls_;
  std::shared_ptr<grpc::Channel> channel_;
  std::optional<CompletionThread<grpc::CompletionQueue>> thread_;
};

}  // namespace

std::unique_ptr<Connector> grpc_connector(const std::string& address,
                                          const std::optional<TlsFiles>& tls,
                                          Clock::duration silence) {
  Address parsed = Address::parse(address);
  if (parsed.port == 0) throw UsageError("'" + address + "' names no port of a server");
  if (!tls && !is_loopback(parsed)) {
    throw UsageError("server " + address + " is another host: beyond this one, give certificates");
  }
  return std::make_unique<GrpcConnector>(
      std::move(parsed), tls ? std::optional(read_tls(*tls)) : std::nullopt, silence);
}

}  // namespace convoy::server::transport
