// The plainest echo that gRPC has: what carrying bytes there and back costs without anything else.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace convoy::cli {

// Sends every message back: unary calls of any method, generic byte buffers.
class EchoServer {
 public:
  EchoServer();  // on a port of 127.0.0.1
  ~EchoServer();
  int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A channel of its own. One thread at a time.
class EchoClient {
 public:
  explicit EchoClient(int port);
  ~EchoClient();
  // `from` there, and back into `to`, of the same size. Throws Failure.
  void exchange(std::span<const std::byte> from, std::span<std::byte> to);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::cli
