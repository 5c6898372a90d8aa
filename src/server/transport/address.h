// Addresses of servers, as people write them.
#pragma once

#include <string>

namespace convoy::server::transport {

// "host:port"; an IPv6 address in brackets.
struct Address {
  std::string host;  // without brackets
  int port = 0;      // 0: any that is free

  std::string text() const;
  // Throws UsageError that says what would be right.
  static Address parse(const std::string& text);
};

// Whether only processes of this host can reach it: every address that the name stands for is a
// loopback one. Throws UsageError for a name that stands for nothing.
bool is_loopback(const Address& address);

}  // namespace convoy::server::transport
