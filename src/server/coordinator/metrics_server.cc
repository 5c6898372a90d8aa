#include "server/coordinator/metrics_server.h"

#include <httplib.h>
#include <openssl/ssl.h>

#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "server/transport/address.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::size_t kThreads = 16;
constexpr time_t kClientPatience = 2;  // seconds, for each step of a client

std::unique_ptr<httplib::Server> make_server(const std::optional<transport::TlsFiles>& tls) {
  if (!tls) return std::make_unique<httplib::Server>();
  transport::read_tls(*tls);  // says what is wrong with them
  auto server = std::make_unique<httplib::SSLServer>([&](SSL_CTX& context) {
    SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_load_verify_locations(&context, tls->authority.c_str(), nullptr) == 1 &&
           SSL_CTX_use_certificate_chain_file(&context, tls->certificate.c_str()) == 1 &&
           SSL_CTX_use_PrivateKey_file(&context, tls->key.c_str(), SSL_FILETYPE_PEM) == 1;
  });
  if (!server->is_valid()) throw UsageError("the metrics can't be served with these certificates");
  return server;
}

}  // namespace

struct MetricsServer::Impl {
  transport::Address address;
  std::unique_ptr<httplib::Server> server;
  std::thread thread;
};

MetricsServer::MetricsServer(const std::string& address,
                             const std::optional<transport::TlsFiles>& tls, Text text)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = transport::Address::parse(address);
  const bool loopback = transport::is_loopback(impl_->address);
  if (!loopback && !tls) {
    throw UsageError("metrics at " + address + ": beyond this host only with certificates");
  }
  impl_->server = make_server(loopback ? std::nullopt : tls);
  httplib::Server& server = *impl_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_read_timeout(kClientPatience);
  server.set_write_timeout(kClientPatience);
  server.set_keep_alive_timeout(kClientPatience);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(1024);
  // Not shared with another process, as the library would have it.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.Get("/metrics",
             [text = std::move(text)](const httplib::Request&, httplib::Response& response) {
               try {
                 response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
               } catch (const std::exception& error) {
                 response.status = 503;
                 response.set_content(error.what(), "text/plain");
               }
             });
  transport::Address& at = impl_->address;
  if (at.port == 0) {
    at.port = server.bind_to_any_port(at.host);
    if (at.port <= 0) throw UsageError("metrics at " + address + ": the address can't be used");
  } else if (!server.bind_to_port(at.host, at.port)) {
    throw UsageError("metrics at " + address + ": the address can't be used, or is taken");
  }
  impl_->thread = std::thread([&server] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();  // else stop() would come too early
}

MetricsServer::~MetricsServer() {
  impl_->server->stop();
  impl_->thread.join();
}

std::string MetricsServer::address() const { return impl_->address.text(); }

}  // namespace convoy::server::coordinator
