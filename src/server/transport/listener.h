// A server's address, and the clients that come there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/base/log.h"
#include "server/transport/server_session.h"
#include "server/transport/tls.h"

namespace convoy::server::transport {

struct ListenerSettings {
  // "host:port", port 0 for any that is free. Beyond loopback only with TLS.
  std::string address = "127.0.0.1:0";
  std::optional<TlsFiles> tls;
  ServerSettings server;
  std::size_t most_clients = 1024;
  Clock::duration hello_timeout = std::chrono::seconds(5);
  Clock::duration silence = std::chrono::seconds(5);  // after which a client is given up
  int threads = 0;  // that receive through TCP; 0: one for each core, at most 4
  convoy::Log log;  // clients that are refused
};

class ListenerCore;

// Threads: any. Clients that share memory have a thread each.
class Listener {
 public:
  // Listens from now on. Throws UsageError, also where the address is taken.
  explicit Listener(ListenerSettings settings);
  // Ends all connections. When it returns no handler runs any more, but one from which it was
  // called; replies may be given later, and go nowhere.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Of clients that come from now on.
  void set_limits(const Limits& limits);

  std::string address() const;  // with the port that was found
  std::size_t clients() const;  // connections, those included that said no hello yet

 private:
  std::shared_ptr<ListenerCore> core_;
};

}  // namespace convoy::server::transport
