// Prometheus' endpoint.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/transport/tls.h"

namespace convoy::server::coordinator {

// Answers GET /metrics. On a loopback address without TLS, on any other only to clients with a
// certificate of the authority. Clients that are slow or say nothing are given up after 2 seconds
// and take no more than some threads of its own.
class MetricsServer {
 public:
  using Text = std::function<std::string()>;  // called by several threads

  // Throws UsageError, also where the address is taken, and in a program that was built without
  // cpp-httplib.
  MetricsServer(const std::string& address, const std::optional<transport::TlsFiles>& tls,
                Text text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::string address() const;  // with the port

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::server::coordinator
