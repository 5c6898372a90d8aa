// What clients and other servers ask for.
#include <utility>

#include "convoy/base/error.h"
#include "server/host/replicate.h"
#include "server/host/server_core.h"
#include "server/service/shard_calls.h"

namespace convoy::server::host {
namespace {

// Large ones came in one run.
replication::Command command_of(const transport::Message& message) {
  const auto& parts = message.parts();
  constexpr std::size_t kCopied = 4096;  // less than what keeping the rest of a message may cost
  if (parts.size() == 1 && message.size() > kCopied && parts.front().owner != nullptr) {
    return {parts.front().bytes, parts.front().owner};
  }
  return std::make_shared<const Bytes>(message.gather());
}

// In one run: large ones are already.
std::span<const std::byte> run_of(const transport::Message& message, Bytes& copy) {
  const auto& parts = message.parts();
  if (parts.size() == 1) return parts.front().bytes;
  copy = message.gather();
  return copy;
}

std::function<void(calls::Answered)> answer_to(transport::Reply reply) {
  return [to = std::make_shared<transport::Reply>(std::move(reply))](calls::Answered answered) {
    to->send(calls::encode(answered));
  };
}

}  // namespace

ShardHost& ServerCore::host_of(std::uint32_t shard) const {
  const auto found = hosts_.find(shard);
  if (found == hosts_.end()) {
    throw UsageError("server " + std::to_string(settings_.number) + " has no shard " +
                     std::to_string(shard));
  }
  return *found->second;
}

// Why a command isn't taken, if it isn't. To the backup it goes with more beside it than it came
// with, in a message that may be no larger; what can't get there would keep all behind it from it.
std::optional<calls::Answered> ServerCore::too_large(std::uint64_t command) {
  const std::uint64_t message = command + kBesideCommand;
  if (message <= settings_.largest_message) return {};
  const std::lock_guard lock(mutex_);
  if (message <= largest_message_) return {};
  calls::Answered answered;
  answered.outcome = largest_is_known_ ? calls::Outcome::refused : calls::Outcome::busy;
  answered.reason = "a command of " + std::to_string(command) + " bytes; the largest that server " +
                    std::to_string(settings_.number) + " takes is " +
                    std::to_string(largest_message_ - kBesideCommand);
  if (!largest_is_known_) call_again();
  return answered;
}

// What it throws is the client's answer.
void ServerCore::handle(transport::Request request, transport::Reply reply) {
  const transport::Message& message = request.message;
  if (request.method == calls::kReplicate) {
    replicate(request);
    return reply.send({});
  }
  if (request.method == calls::kReport) {
    calls::Answered answered;
    answered.content = calls::encode(host_of(calls::shard_of(message)).report());
    return reply.send(calls::encode(answered));
  }
  if (request.method == calls::kFetch) {
    const calls::FetchRequest fetch = calls::decode_fetch(message);
    return reply.send(calls::encode(host_of(fetch.shard).fetch(fetch)));
  }
  if (handle_batch(request, reply)) return;
  const bool command = request.method == calls::kCommand;
  if (!command && request.method != calls::kCut) {
    throw UsageError("a server has no method '" + request.method + "'");
  }
  if (command) {
    ShardHost& host = host_of(calls::shard_of(message));
    const transport::Message command = calls::decode_command(message);
    if (const auto refused = too_large(command.size())) {
      return reply.send(calls::encode(*refused));
    }
    host.command(command_of(command), answer_to(std::move(reply)));
  } else {
    calls::CutRequest cut = calls::decode_cut(message);
    ShardHost& host = host_of(cut.shard);
    host.cut(std::move(cut), answer_to(std::move(reply)));
  }
}

// Of a batch optimizer's vectors; whether it was.
bool ServerCore::handle_batch(const transport::Request& request, transport::Reply& reply) {
  const transport::Message& message = request.message;
  const auto send = [&](const calls::Answered& answered) { reply.send(calls::encode(answered)); };
  if (request.method == calls::kDots) {
    const calls::DotsRequest dots = calls::decode_dots(message);
    send(host_of(dots.shard).dots(dots));
  } else if (request.method == calls::kVector) {
    const calls::VectorRequest vector = calls::decode_vector(message);
    send(host_of(vector.shard).vector(vector));
  } else if (request.method == calls::kVectors) {
    send(host_of(calls::shard_of(message)).vectors());
  } else if (request.method == calls::kMissing) {
    const calls::EvaluationRequest missing = calls::decode_evaluation(message);
    send(host_of(missing.shard).missing(missing));
  } else if (request.method == calls::kSeal) {
    const calls::SealRequest seal = calls::decode_seal(message);
    host_of(seal.shard).seal(seal, answer_to(std::move(reply)));
  } else if (request.method == calls::kGroup) {
    const replication::Command bytes = command_of(message);  // kept until the backup has it
    const calls::GroupRequest group = calls::decode_group(*bytes);
    ShardHost& host = host_of(group.shard);
    if (const auto refused = too_large(message.size())) {
      send(*refused);
    } else {
      host.group(group, transport::Message::view(*bytes, bytes.owner()),
                 answer_to(std::move(reply)));
    }
  } else if (request.method == calls::kGroupCopy) {
    Bytes copy;
    const calls::CopyRequest group = calls::decode_copy(run_of(message, copy));
    const auto found = hosts_.find(group.group.shard);
    if (found == hosts_.end() || !found->second->keep_copy(group)) {
      reply.fail("this server is not the backup in epoch " + std::to_string(group.epoch));
    } else {
      reply.send({});
    }
  } else {
    return false;
  }
  return true;
}

void ServerCore::replicate(const transport::Request& request) {
  for (const replication::Message& message : decode_replicate(request.message)) {
    // One that this server has not is of a plan that it doesn't know.
    const auto found = hosts_.find(message.shard);
    if (found != hosts_.end()) found->second->receive(message);
  }
}

}  // namespace convoy::server::host
