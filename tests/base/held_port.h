// A port that nobody else is given.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "convoy/base/descriptor.h"

namespace convoy::test {

// A port of 127.0.0.1 for a server that comes and goes: while that is away, connections are
// refused, and the kernel gives the port to no other test. A server that sets SO_REUSEADDR may
// listen there all the time.
class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error(errno, std::generic_category(), "a port of 127.0.0.1");
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  const std::string& address() const { return address_; }

 private:
  Descriptor socket_;
  std::string address_;
};

}  // namespace convoy::test
