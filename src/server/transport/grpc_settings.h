// How both sides set gRPC up.
#pragma once

#include <grpc/grpc.h>

#include <chrono>

#include "convoy/base/clock.h"
#include "server/transport/grpc_bytes.h"

namespace convoy::server::transport {

inline constexpr char kStreamMethod[] = "/convoy.server.Transport/Stream";

// Calls set(name, value) for each. A host that falls silent is noticed after `silence`.
template <class Set>
void set_common_arguments(Clock::duration silence, Set&& set) {
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kLongestStreamMessage));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(kLongestStreamMessage));
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  set(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(ms * 2 / 5));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(ms - ms * 2 / 5));
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // as many as it takes
}

}  // namespace convoy::server::transport
