// Stands for Prometheus' endpoint where there is no cpp-httplib.
#include "convoy/base/error.h"
#include "server/coordinator/metrics_server.h"

namespace convoy::server::coordinator {

struct MetricsServer::Impl {};

MetricsServer::MetricsServer(const std::string&, const std::optional<transport::TlsFiles>&, Text) {
  throw UsageError(
      "this program was built without cpp-httplib and serves no metrics; build it with that "
      "(Debian: libcpp-httplib-dev) or leave --metrics out");
}
MetricsServer::~MetricsServer() = default;
std::string MetricsServer::address() const { return {}; }

}  // namespace convoy::server::coordinator
