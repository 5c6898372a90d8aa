#include "server/transport/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "convoy/base/error.h"

namespace convoy::server::transport {

std::string Address::text() const {
  const bool bracket = host.find(':') != std::string::npos;
  return (bracket ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

Address Address::parse(const std::string& text) {
  const auto wrong = [&]() -> UsageError {
    return UsageError("'" + text + "' is no address of a server: write host:port, for example " +
                      "127.0.0.1:7400 or [::1]:7400");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) throw wrong();
  Address address;
  address.host = text.substr(0, colon);
  if (address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  else if (address.host.find(':') != std::string::npos)
    throw wrong();
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, address.port);
  if (error != std::errc() || stop != end || address.port < 0 || address.port > 65535 ||
      address.host.empty())
    throw wrong();
  return address;
}

bool is_loopback(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    throw UsageError("host '" + address.host + "' of a server's address: " + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      const auto* ip = reinterpret_cast<const sockaddr_in*>(one->ai_addr);
      if ((ntohl(ip->sin_addr.s_addr) >> 24) != 127) return false;
    } else if (one->ai_family == AF_INET6) {
      const auto* ip = reinterpret_cast<const sockaddr_in6*>(one->ai_addr);
      if (!IN6_IS_ADDR_LOOPBACK(&ip->sin6_addr)) return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace convoy::server::transport
