#include "server/transport/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "convoy/base/descriptor.h"
#include "server/transport/openssl.h"

namespace convoy::server::transport {
namespace {

constexpr int kPatience = 2000;  // ms

// Connected, or why not.
Descriptor connect_to(const Address& address, std::string& problem) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    problem = gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) continue;
    int failure = 0;
    if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) {
      failure = errno;
      pollfd wait{socket.get(), POLLOUT, 0};
      if (failure == EINPROGRESS && poll(&wait, 1, kPatience) == 1) {
        socklen_t size = sizeof failure;
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
      } else if (failure == EINPROGRESS) {
        failure = ETIMEDOUT;
      }
    }
    if (failure != 0) {
      problem = failure == ECONNREFUSED ? "nobody listens there (connection refused)"
                                        : std::strerror(failure);
      continue;
    }
    fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
    const timeval patience{kPatience / 1000, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return socket;
  }
  return {};
}

TlsContext context_of(const std::optional<TlsTexts>& tls) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (!tls) return context;
  const Bio trusted = reading(tls->authority);
  while (const Certificate one = read_certificate(trusted.get()))
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), one.get());
  const Certificate own = read_certificate(reading(tls->certificate).get());
  const Key key = read_key(reading(tls->key).get());
  if (own) SSL_CTX_use_certificate(context.get(), own.get());
  if (key) SSL_CTX_use_PrivateKey(context.get(), key.get());
  return context;
}

bool names(X509* certificate, const std::string& host) {
  return X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
}

}  // namespace

Connector::Diagnosis probe(const Address& address, const std::optional<TlsTexts>& tls) {
  std::string problem;
  const Descriptor socket = connect_to(address, problem);
  if (!socket.open()) return {problem, false};
  const TlsContext context = context_of(tls);
  const TlsConnection connection(SSL_new(context.get()));
  SSL_set_fd(connection.get(), socket.get());
  // gRPC's servers speak TLS only with those who offer HTTP/2.
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(connection.get(), kHttp2, sizeof kHttp2);
  SSL_set_tlsext_host_name(connection.get(), address.host.c_str());
  const int done = SSL_connect(connection.get());
  const int failure = done == 1 ? SSL_ERROR_NONE : SSL_get_error(connection.get(), done);
  const unsigned long reason = ERR_peek_error();
  ERR_clear_error();
  const Certificate certificate(SSL_get1_peer_certificate(connection.get()));
  if (!tls) {
    if (done != 1 && !certificate) return {};
    return {"the server speaks TLS and this client was given no certificate (plain text)", true};
  }
  if (!certificate) {
    const bool plain =
        failure == SSL_ERROR_SSL && ERR_GET_REASON(reason) == SSL_R_WRONG_VERSION_NUMBER;
    if (!plain) return {};
    return {"the server speaks plain text and this client TLS: start it with certificates", true};
  }
  const long verified = SSL_get_verify_result(connection.get());
  if (verified != X509_V_OK) return {"the server " + verdict(verified, certificate.get()), true};
  if (!names(certificate.get(), address.host))
    return {"the server shows a certificate that is not for host '" + address.host + "'", true};
  return {};
}

}  // namespace convoy::server::transport
