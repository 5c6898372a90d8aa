// Messages of replication as they travel between servers: the request of calls::kReplicate.
#pragma once

#include <cstdint>
#include <vector>

#include "server/replication/messages.h"
#include "server/transport/message.h"

namespace convoy::server::host {

// More than what the request has beside a command that is alone in it.
inline constexpr std::uint64_t kBesideCommand = 4096;

// As calls::encode() of them, but large commands are not copied: the request refers to them.
transport::Message replicate_request(const std::vector<replication::Message>& messages);
// As calls::decode_replication(), but large commands are copied only once. Throws UsageError.
std::vector<replication::Message> decode_replicate(const transport::Message& request);

}  // namespace convoy::server::host
