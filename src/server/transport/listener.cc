#include "server/transport/listener.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "server/transport/address.h"
#include "server/transport/completion_thread.h"
#include "server/transport/grpc_settings.h"

namespace convoy::server::transport {
namespace {

using ServerQueue = CompletionThread<grpc::ServerCompletionQueue>;

struct Incoming {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
};

// The listener whose handler this thread is in.
thread_local const ListenerCore* handling = nullptr;

std::string text_of(grpc::string_ref text) { return {text.data(), text.size()}; }

}  // namespace

class ListenerCore : public std::enable_shared_from_this<ListenerCore> {
 public:
  explicit ListenerCore(ListenerSettings settings);
  void start();
  void close();
  void set_limits(const Limits& limits);
  std::string address() const { return Address{host_, port_}.text(); }
  std::size_t clients() const {
    const std::lock_guard lock(mutex_);
    return sessions_.size();
  }

 private:
  class Accept;
  class Stream;

  void accept(ServerQueue& queue);
  void accepted(std::unique_ptr<Incoming> incoming);
  void gone(std::uint64_t session);
  std::optional<std::string> refusal(const grpc::ServerContext& context) const;
  void keep();
  void shut_down();

  ListenerSettings settings_;
  std::optional<TlsTexts> tls_;
  std::string host_;
  int port_ = 0;
  Crew crew_;  // threads of shared memory
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<ServerQueue>> queues_;
  std::thread keeper_;

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::shared_ptr<const ServerSettings> server_settings_;  // the sessions' to come
  std::map<std::uint64_t, std::shared_ptr<ServerSession>> sessions_;
  std::uint64_t last_session_ = 0;
  bool closing_ = false;
};

// Waits for one client.
class ListenerCore::Accept : public Event {
 public:
  Accept(ListenerCore& core, ServerQueue& queue) : core_(core), queue_(queue) {}
  Incoming& incoming() { return *incoming_; }
  void complete(bool ok) override {
    const std::unique_ptr<Accept> self(this);
    if (!ok) return;  // the server ends
    core_.accept(queue_);
    core_.accepted(std::move(incoming_));
  }

 private:
  ListenerCore& core_;  // which waits for its queues to be empty
  ServerQueue& queue_;
  std::unique_ptr<Incoming> incoming_ = std::make_unique<Incoming>();
};

class ListenerCore::Stream : public StreamLink {
 public:
  Stream(ListenerCore& core, std::uint64_t number, std::shared_ptr<ServerSession> session,
         std::unique_ptr<Incoming> incoming)
      : StreamLink(std::move(session)),
        core_(core),
        number_(number),
        incoming_(std::move(incoming)) {}
  using StreamLink::begin;

 private:
  void begin_read(grpc::ByteBuffer& buffer, Event* done) override {
    incoming_->stream.Read(&buffer, done);
  }
  void begin_write(const grpc::ByteBuffer& buffer, Event* done) override {
    incoming_->stream.Write(buffer, done);
  }
  void begin_end(Event* done) override { incoming_->stream.Finish(grpc::Status::OK, done); }
  void cancel() override { incoming_->context.TryCancel(); }
  std::string why() const override { return "the client has gone"; }
  void gone() override { core_.gone(number_); }

  ListenerCore& core_;  // as above
  const std::uint64_t number_;
  const std::unique_ptr<Incoming> incoming_;
};

ListenerCore::ListenerCore(ListenerSettings settings) : settings_(std::move(settings)) {
  settings_.server.limits.check();
  const Address address = Address::parse(settings_.address);
  if (!settings_.tls && !is_loopback(address)) {
    throw UsageError("a server at " + settings_.address +
                     " would be open to other hosts: give it certificates, or a loopback address");
  }
  host_ = address.host;
  if (settings_.tls) tls_ = read_tls(*settings_.tls);
  settings_.server.handler = [this, handler = settings_.server.handler](Request request,
                                                                        Reply reply) {
    const ListenerCore* outer = std::exchange(handling, this);
    const struct Restore {
      const ListenerCore* outer;
      ~Restore() { handling = outer; }
    } restore{outer};
    handler(std::move(request), std::move(reply));
  };
  server_settings_ = std::make_shared<const ServerSettings>(settings_.server);

  grpc::ServerBuilder builder;
  set_common_arguments(settings_.silence, [&](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  });
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // an address that is taken is an error
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 8);  // of one connection
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (tls_) {
    // The client has to show a certificate and prove that it has the key; whose certificate it is
    // gets checked before a byte is read, so that it can be told what is wrong.
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    options.pem_root_certs = tls_->authority;
    options.pem_key_cert_pairs = {{tls_->key, tls_->certificate}};
    credentials = grpc::SslServerCredentials(options);
  }
  builder.AddListeningPort(address.text(), credentials, &port_);
  builder.RegisterAsyncGenericService(&service_);
  const int threads = settings_.threads > 0
                          ? settings_.threads
                          : std::clamp(static_cast<int>(usable_cores().size()), 1, 4);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < threads; ++i) queues.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (!server_ || port_ == 0) {
    throw UsageError("a server can't listen at " + settings_.address +
                     ": the address is taken, or not this host's");
  }
  for (auto& queue : queues) queues_.push_back(std::make_unique<ServerQueue>(std::move(queue)));
}

void ListenerCore::start() {
  for (const auto& queue : queues_) accept(*queue);
  keeper_ = std::thread([self = shared_from_this()] { self->keep(); });
}

void ListenerCore::set_limits(const Limits& limits) {
  limits.check();
  const std::lock_guard lock(mutex_);
  settings_.server.limits = limits;
  server_settings_ = std::make_shared<const ServerSettings>(settings_.server);
}

void ListenerCore::accept(ServerQueue& queue) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  auto* next = new Accept(*this, queue);  // its own, until it is complete
  Incoming& incoming = next->incoming();
  service_.RequestCall(&incoming.context, &incoming.stream, &queue.queue(), &queue.queue(), next);
}

// Why somebody at the other end of a connection gets no session.
std::optional<std::string> ListenerCore::refusal(const grpc::ServerContext& context) const {
  if (!tls_) return std::nullopt;
  std::string chain;
  const auto peer = context.auth_context();
  // The one whose key the client has shown to have, first; a chain may come without it.
  for (const char* property : {"x509_pem_cert", "x509_pem_cert_chain"}) {
    const auto values = peer->FindPropertyValues(property);
    if (values.empty()) break;
    chain += text_of(values.front());
  }
  const auto problem = problem_of(chain, tls_->authority, Purpose::client);
  if (!problem) return std::nullopt;
  return "this client " + *problem;
}

void ListenerCore::accepted(std::unique_ptr<Incoming> incoming) {
  std::string peer = incoming->context.peer();
  for (std::size_t at; (at = peer.find("%5B")) != std::string::npos;) peer.replace(at, 3, "[");
  for (std::size_t at; (at = peer.find("%5D")) != std::string::npos;) peer.replace(at, 3, "]");
  std::optional<std::string> why = refusal(incoming->context);
  if (!why && incoming->context.method() != kStreamMethod)
    why = "there is no method " + incoming->context.method().substr(0, 100);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<ServerSession> session;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = ++last_session_;
    if (!why && sessions_.size() >= settings_.most_clients)
      why = "the server has " + std::to_string(sessions_.size()) + " clients, and takes no more";
    session = std::make_shared<ServerSession>(server_settings_, Peer{number, "", peer}, crew_);
    sessions_[number] = session;
    stream = std::make_shared<Stream>(*this, number, session, std::move(incoming));
    changed_.notify_all();
  }
  session->attach(stream);
  if (why) session->refuse(*why);
  stream->begin();
}

void ListenerCore::gone(std::uint64_t number) {
  std::shared_ptr<ServerSession> session;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(number);
    session = std::move(found->second);
    sessions_.erase(found);
  }
  const std::string why = session->refused_because();
  if (!why.empty())
    settings_.log.warning("refused a client (" + session->description() + "): " + why);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void ListenerCore::keep() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    // Whoever connects and says nothing is sent away.
    std::vector<std::shared_ptr<ServerSession>> silent, refused;
    auto next = Clock::time_point::max();
    for (const auto& [number, session] : sessions_) {
      // Nor does one that was refused, and takes no word of it, stay.
      const auto refused_at = session->refused_at();
      if (session->welcomed() && !refused_at) continue;
      const auto until = refused_at.value_or(session->began()) + settings_.hello_timeout;
      if (until <= Clock::now()) {
        (refused_at ? refused : silent).push_back(session);
      } else {
        next = std::min(next, until);
      }
    }
    if (!silent.empty() || !refused.empty()) {
      lock.unlock();
      for (const auto& session : silent) session->refuse("this client said no hello in time");
      for (const auto& session : refused) session->close();
      silent.clear();
      refused.clear();
      lock.lock();
      // The connections' ends, or the next that is due, come later.
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    } else if (next == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
  lock.unlock();
  shut_down();
}

void ListenerCore::shut_down() {
  server_->Shutdown(std::chrono::system_clock::now());  // cancels what is under way
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sessions_.empty(); });
  }
  queues_.clear();
  server_.reset();
  crew_.join();
}

void ListenerCore::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (handling == this) {
    keeper_.detach();  // it waits for this thread
  } else {
    keeper_.join();
  }
}

Listener::Listener(ListenerSettings settings)
    : core_(std::make_shared<ListenerCore>(std::move(settings))) {
  core_->start();
}

Listener::~Listener() { core_->close(); }

void Listener::set_limits(const Limits& limits) { core_->set_limits(limits); }
std::string Listener::address() const { return core_->address(); }
std::size_t Listener::clients() const { return core_->clients(); }

}  // namespace convoy::server::transport
