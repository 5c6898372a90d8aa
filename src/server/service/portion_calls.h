// What a replica asks the coordinator for in batch optimization: groups of portions
// (docs/server-coordinator.md). A method of the transport as those of coordinator_calls.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/server/batch.h"
#include "server/transport/message.h"

namespace convoy::server::calls {

// PortionRequest, answered with PortionAnswer at once, or when there is something to say, after a
// while at the latest.
inline constexpr std::string_view kPortions = "portions";

struct FinishedGroup {
  PortionGroup group;
  std::vector<double> losses;  // of each portion, the sum over its samples
};
struct PortionRequest {
  std::uint64_t client = 0;
  EvaluationId evaluation;              // that it works on, and that the rest is of
  std::vector<PortionGroup> held;       // in the order in which it works on them; at most kMostHeld
  std::vector<FinishedGroup> finished;  // of which all shards have the gradient; at most kMostHeld
  bool at_once = false;                 // it has something to do meanwhile
};
inline constexpr std::size_t kMostHeld = 8;

struct PortionAnswer {
  enum class Kind : std::uint8_t {
    group = 0,
    wait = 1,      // nothing for now: ask again at once
    finished = 2,  // the job is over: `why`
    unknown_client = 3
  };
  Kind kind = Kind::wait;
  EvaluationId evaluation;  // whatever it holds of another one is of no use any more
  std::uint32_t portions = 0;
  PortionGroup group;
  bool copy = false;                 // another one is at it
  std::vector<PortionGroup> unused;  // of those it holds: done by others
  std::string why;                   // of waiting, of the end
};

// What decode...() throws for bytes that encode() can't have made is a UsageError.
transport::Message encode(const PortionRequest& request);
transport::Message encode(const PortionAnswer& answer);
PortionRequest decode_portion_request(const transport::Message& message);
PortionAnswer decode_portion_answer(const transport::Message& message);

}  // namespace convoy::server::calls
