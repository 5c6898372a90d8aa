// What a coordinator's core wants from its host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/coordinator/state_store.h"
#include "server/replication/types.h"
#include "server/transport/message.h"

namespace convoy::server::coordinator {

using replication::Time;  // microseconds
// A request that waits for its answer, as the host numbers them.
using CallId = std::uint64_t;

// Answers a request, each once.
struct AnswerCall {
  CallId call = 0;
  transport::Message message;
  std::string problem;  // not empty: the call fails with it
};
// Puts this into the store; Core::stored() says when it is there. In order: with a ticket all
// before it are.
struct StoreWrites {
  std::uint64_t ticket = 0;
  std::vector<Write> writes;  // the first StateStore::kMaxWrites in one step
  Survives survives = Survives::process;
};
// Calls a server. Core::answered() gets what it says, or that it said nothing, once.
struct AskServer {
  std::uint64_t id = 0;
  std::string address;
  std::string method;
  transport::Message request;
  Time patience = 0;
};
// Of the replication::ConfigurationStore; Core::configuration() gets the answer.
struct ReadConfiguration {
  std::uint32_t shard = 0;
};
struct SetConfiguration {
  replication::Configuration next;
};
// Of Core::await_evaluation(): all portions are done, or the loss isn't finite.
struct EvaluationOver {
  std::uint64_t token = 0;
  bool finite = true;
  double loss = 0;                          // the sum over all samples
  std::optional<std::uint32_t> not_finite;  // a portion whose loss isn't, if that is known
};
// Of Core::keep_batch(): it is stored.
struct BatchKept {
  std::uint64_t token = 0;
};
// A line for people.
struct Tell {
  enum class Level { info, warning } level = Level::info;
  std::string line;
};

using Effect = std::variant<AnswerCall, StoreWrites, AskServer, ReadConfiguration, SetConfiguration,
                            EvaluationOver, BatchKept, Tell>;
using Effects = std::vector<Effect>;

}  // namespace convoy::server::coordinator
