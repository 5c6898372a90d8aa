// What the tests of the network share.
#pragma once

#include <vector>

#include "server/transport/grpc_connector.h"
#include "server/transport/listener.h"
#include "tests/base/patience.h"

namespace convoy::server::transport::test {

inline Clock::time_point soon() { return Clock::now() + convoy::test::patience(); }

inline ListenerSettings listener_settings() {
  ListenerSettings settings;
  settings.log = Log("", Log::Level::error);
  settings.server.identity = {"job", "model"};
  settings.server.handler = [](Request request, Reply reply) {
    reply.send(std::move(request.message));
  };
  return settings;
}

inline ChannelSettings channel_settings(bool shared = false) {
  ChannelSettings settings;
  settings.identity = {"job", "model"};
  settings.shared_memory = shared;
  return settings;
}

inline std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 / 7);
  return bytes;
}

inline Answer echo(Channel& channel, std::size_t size = 10) {
  return channel.call("echo", Message::of(some_bytes(size)), soon()).get();
}

}  // namespace convoy::server::transport::test
