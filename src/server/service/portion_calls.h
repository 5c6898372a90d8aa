// What replicas and evaluators ask the coordinator for in batch optimization: groups of portions,
// and how far it is (docs/server-coordinator.md). A method of the transport as those of
// coordinator_calls.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/server/batch.h"
#include "server/transport/message.h"
#include "server/wire/writer.h"

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

// WatchRequest, answered with WatchAnswer.
inline constexpr std::string_view kWatch = "watch";
// How an evaluator has a checkpoint gone on from: BatchFrom; answered with the version alone.
inline constexpr std::string_view kBeginFrom = "begin from";

struct WatchRequest {
  enum class Hold : std::uint8_t { keep = 0, hold = 1, let_go = 2 };
  std::uint64_t client = 0;  // 0: nobody, which can hold nothing
  std::uint64_t after = 0;   // records of groups with larger numbers
  Hold hold = Hold::keep;    // keep: as it was
};
struct WatchAnswer {
  // Its state and last iteration are in `start`.
  BatchProgress progress;
  Bytes start;  // coordinator::BatchStart; empty: nothing has begun
};
inline constexpr std::size_t kMostRecords = 4096;  // of groups, in one answer

struct BatchFrom {
  std::uint64_t client = 0;
  Bytes start;  // coordinator::BatchStart
};

// What decode...() throws for bytes that encode() can't have made is a UsageError.
transport::Message encode(const PortionRequest& request);
transport::Message encode(const PortionAnswer& answer);
transport::Message encode(const WatchRequest& request);
transport::Message encode(const WatchAnswer& answer);
transport::Message encode(const BatchFrom& from);
PortionRequest decode_portion_request(const transport::Message& message);
PortionAnswer decode_portion_answer(const transport::Message& message);
WatchRequest decode_watch_request(const transport::Message& message);
WatchAnswer decode_watch_answer(const transport::Message& message);
BatchFrom decode_batch_from(const transport::Message& message);

}  // namespace convoy::server::calls
