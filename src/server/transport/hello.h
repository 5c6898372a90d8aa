// What client and server tell each other before anything else.
#pragma once

#include <cstdint>
#include <string>

#include "server/transport/credits.h"
#include "server/transport/message.h"

namespace convoy::server::transport {

inline constexpr std::uint32_t kProtocolVersion = 1;

// What both sides must agree on.
struct Identity {
  std::string job;
  std::string fingerprint;  // of the model: whatever tells apart what must not be mixed
};

struct Hello {
  std::uint32_t version = kProtocolVersion;
  Identity identity;
  std::string name;  // of the client, for people
  std::string boot;  // of the client's host; empty: no shared memory
  Limits limits;     // what the client takes

  Message encode() const;
  // Of a hello of another version, only that is read. Throws Failure.
  static Hello decode(const Message& message);
};

struct Welcome {
  Limits limits;               // what the server takes
  std::string shared_address;  // see Mapping::open; empty: none is offered
  std::uint64_t shared_bytes = 0;

  Message encode() const;
  static Welcome decode(const Message& message);  // throws Failure
};

// Why a server with this identity does not serve the client; empty if it does.
std::string difference(const Identity& server, const Hello& client);

// The identity of this host since it was started, or empty: two processes with the same can share
// memory, if they also see each other's.
std::string boot_identity();

}  // namespace convoy::server::transport
