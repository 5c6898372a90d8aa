// Channels over gRPC.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/transport/channel.h"
#include "server/transport/tls.h"

namespace convoy::server::transport {

// Streams to a server at "host:port". Without TLS only to this host. A server that falls silent is
// given up after `silence`. Throws UsageError.
std::unique_ptr<Connector> grpc_connector(const std::string& address,
                                          const std::optional<TlsFiles>& tls = std::nullopt,
                                          Clock::duration silence = std::chrono::seconds(5));

}  // namespace convoy::server::transport
