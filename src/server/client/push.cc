// Gradients to the shards, each applied once.
#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "convoy/base/error.h"
#include "server/client/core.h"
#include "server/client/lending.h"

namespace convoy::server::client {
namespace {

using namespace std::chrono_literals;
using transport::Message;

constexpr auto kFirstLook = std::chrono::microseconds(500);  // whether a round is complete
constexpr auto kLongestLook = 10ms;
constexpr auto kPushDoubt = 1s;  // then another server may be primary

std::uint64_t packed(std::pair<std::uint64_t, std::uint64_t> progress) {
  if (progress.first >> 32 != 0 || progress.second >> 32 != 0) {
    throw UsageError("progress: portion " + std::to_string(progress.first) + ", " +
                     std::to_string(progress.second) + " samples; both have to fit into 32 bits");
  }
  return progress.first << 32 | progress.second;
}

}  // namespace

struct Core::Pushing {
  struct ToShard {
    Push push;
    std::vector<std::span<const float>> values;  // of each slice
  };
  std::shared_ptr<Membership> membership;
  std::map<std::uint32_t, ToShard> shards;
  PushResult result;
  std::map<std::uint32_t, FetchRange> collected;  // wait for their round; a slice without elements
  std::map<std::uint32_t, std::uint64_t> versions;  // that it had
  std::map<std::uint32_t, std::uint64_t> rounds;    // that wait for others, of a push of nothing
  bool older = false;  // than what was fetched: a shard lost what it had
};

PushResult Core::push(std::span<const ReadView> gradients, std::uint64_t samples,
                      std::pair<std::uint64_t, std::uint64_t> progress, std::uint64_t fetched,
                      std::span<const std::uint64_t> ids) {
  Pushing pushing;
  pushing.membership = membership();
  if (!pushing.membership) throw UsageError("only a member can push: join() first");
  check(pushing.membership);
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  layout.check(gradients);
  const auto versions = parameters->versions.after(fetched);
  if (!versions) {
    throw UsageError("a push of what was computed after " + std::to_string(fetched) +
                     " fetches: that is not known, or not any more; " +
                     std::to_string(parameters->versions.fetches()) + " are complete");
  }
  Push common;
  common.client = pushing.membership->id;
  common.samples = samples;
  common.progress = packed(progress);
  common.ids.assign(ids.begin(), ids.end());
  struct Part {
    const Place* place;
    std::span<const float> values;
  };
  std::vector<Part> parts;
  for (const ReadView& view : gradients) {
    for (const Place& place : layout.of_vector(view.vector)) {
      if ((*versions)[place.number] == Versions::kNone) {
        throw UsageError("a gradient of vector '" + layout.description().vectors[view.vector].name +
                         "', which had not been fetched");
      }
      parts.push_back({&place, view.values.subspan(place.begin, place.size)});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.place->number < b.place->number;  // by shard, then by slice
  });
  // From here on it may have been done.
  common.sequence = ++pushing.membership->sequence;
  for (const Part& part : parts) {
    Pushing::ToShard& shard =
        pushing.shards.try_emplace(part.place->shard, Pushing::ToShard{common, {}}).first->second;
    shard.push.slices.push_back({part.place->slice, (*versions)[part.place->number], {}});
    shard.values.push_back(part.values);
  }
  // A share without samples is one of a round all the same.
  if (gradients.empty() && plan_.staleness_bound == 0) {
    for (const std::uint32_t shard : pushing.membership->shards) {
      pushing.shards.emplace(shard, Pushing::ToShard{common, {}});
    }
  }
  push_all(pushing);
  if (pushing.older) parameters->versions.forget();
  await_rounds(pushing);
  traffic_.done(Traffic::Kind::push);
  return pushing.result;
}

// Makes each shard's command and sends it; takes the replies.
void Core::push_all(Pushing& pushing) {
  const Encoding encoding = encoding_of(options_.push);
  Lending lending(directory_);
  Exchange exchange(directory_, traffic_,
                    settings("push", Traffic::Kind::push, pushing.membership));
  for (auto& [shard, to] : pushing.shards) {
    std::vector<Message> rounded;
    std::vector<EncodedValues> arrays;
    for (std::size_t i = 0; i < to.values.size(); ++i) {
      const std::span<const float> values = to.values[i];
      if (encoding == Encoding::f32) {
        arrays.emplace_back(encoding, values.size(), std::as_bytes(values));
      } else {
        Bytes bytes(encoded_size(encoding, values.size()));
        encode(encoding, values, bytes);
        rounded.push_back(Message::of(std::move(bytes)));
        const auto& parts = rounded.back().parts();
        arrays.emplace_back(encoding, values.size(),
                            parts.empty() ? std::span<const std::byte>() : parts.front().bytes);
      }
      to.push.slices[i].values = arrays.back();
    }
    std::vector<Bytes> pieces = push_pieces(to.push);
    Message command;
    if (encoding == Encoding::f32) {
      command = lending.message(std::move(pieces), arrays);
    } else {
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        command.append(Message::of(std::move(pieces[i])));
        if (i < rounded.size()) command.append(rounded[i]);
      }
    }
    exchange.ask(shard, shard, calls::kCommand, calls::command_request(shard, command));
  }
  PushResult& result = pushing.result;
  while (!exchange.empty()) {
    const Exchange::Result next = exchange.next();
    const std::string about = "push: shard " + std::to_string(next.shard) + ": ";
    if (next.answer.outcome == calls::Outcome::refused) throw Failure(about + next.answer.reason);
    const Reply reply = decode_reply(next.answer.content.gather());
    result.staleness = std::max(result.staleness, reply.staleness);
    std::atomic<std::uint64_t>& round = pushing.membership->round;
    round = std::max(round.load(), reply.round + (reply.status == Status::collected ? 1 : 0));
    const auto& slices = pushing.shards.at(next.shard).push.slices;
    switch (reply.status) {
      case Status::done:
        break;
      case Status::collected:
        if (slices.empty()) {
          pushing.rounds[next.shard] = reply.round;
          break;
        }
        // Of a shard's slices, which it updates one after the other, the last.
        pushing.collected[next.shard] = {slices.back().slice, 0, 0, 0};
        pushing.versions[next.shard] = slices.back().version;
        break;
      case Status::conflict:
        pushing.older = true;
        [[fallthrough]];
      case Status::fetch_again:
        if (result.kind == PushResult::Kind::applied) {
          result.kind = PushResult::Kind::fetch_again;
          result.why = reply.message;
        }
        break;
      case Status::not_finite:
      case Status::wrong_shape:
        if (result.kind != PushResult::Kind::refused) result.why = reply.message;
        result.kind = PushResult::Kind::refused;
        break;
      case Status::not_member:
        pushing.membership->heartbeat->found_lost();
        throw_lost(reply.message);
      default:
        throw Failure(about + std::string(name(reply.status)) + ": " + reply.message);
    }
  }
}

// A round is complete when the last slice pushed has another version; one of which nothing was
// pushed when the shard says so. The others may take any time.
void Core::await_rounds(Pushing& pushing) {
  Clock::duration pause = kFirstLook;
  const auto began = Clock::now();
  while (!pushing.collected.empty() || !pushing.rounds.empty()) {
    check(pushing.membership);
    const std::string ended = this->ended();
    if (!ended.empty()) throw Failure("push: the job is over: " + ended);
    if (Clock::now() > began + kPushDoubt) directory_.refresh();
    std::this_thread::sleep_for(pause);
    pause = std::min<Clock::duration>(pause * 3 / 2, kLongestLook);
    Exchange exchange(directory_, traffic_,
                      settings("push", Traffic::Kind::other, pushing.membership));
    for (const auto& [shard, range] : pushing.collected) {
      calls::FetchRequest look;
      look.shard = shard;
      look.ranges = {range};
      exchange.ask(shard, shard, calls::kFetch, encode(look));
    }
    for (const auto& [shard, round] : pushing.rounds) {
      exchange.ask(shard, shard, calls::kReport, calls::report_request(shard));
    }
    while (!exchange.empty()) {
      const Exchange::Result next = exchange.next();
      if (next.answer.outcome == calls::Outcome::refused) {
        throw Failure("push: shard " + std::to_string(next.shard) + ": " + next.answer.reason);
      }
      if (const auto waits = pushing.rounds.find(next.shard); waits != pushing.rounds.end()) {
        if (calls::decode_report(next.answer.content).round > waits->second) {
          pushing.rounds.erase(waits);
        }
        continue;
      }
      const calls::Fetched fetched = calls::decode_fetched(next.answer.content);
      if (!fetched.versions.empty() && fetched.versions.front() > pushing.versions[next.shard]) {
        pushing.collected.erase(next.shard);
      }
    }
  }
}

}  // namespace convoy::server::client
