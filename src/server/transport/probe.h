// Finds out why no connection comes about, in words.
#pragma once

#include <optional>
#include <string>

#include "server/transport/address.h"
#include "server/transport/channel.h"
#include "server/transport/tls.h"

namespace convoy::server::transport {

// Connects by itself and says what it met: nobody there, TLS where none was expected or the other
// way round, a certificate that is not good. Takes two seconds at most for each step. The caller's
// thread blocks SIGPIPE.
Connector::Diagnosis probe(const Address& address, const std::optional<TlsTexts>& tls);

}  // namespace convoy::server::transport
