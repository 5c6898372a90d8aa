// What a client tells shards but for pushes: what they hold, who is a member, which rates.
#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "convoy/base/error.h"
#include "server/client/core.h"
#include "server/client/lending.h"
#include "server/replication/messages.h"

namespace convoy::server::client {
namespace {

using namespace std::chrono_literals;
using transport::Message;

// Values of one command to initialize with, unless a slice alone has more.
constexpr std::uint64_t kInitialBytes = std::uint64_t{16} << 20;

Reply reply_of(const calls::Answered& answer) { return decode_reply(answer.content.gather()); }

// Of new weights most are the same.
EncodedValues encoded(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  // Bits, since there are two zeros.
  const bool same = values.size() > 1 && std::equal(bytes.begin() + 4, bytes.end(), bytes.begin());
  return same ? EncodedValues(Encoding::fill, values.size(), bytes.first(4))
              : EncodedValues(Encoding::f32, values.size(), bytes);
}

}  // namespace

Exchange::Settings Core::settings(std::string what, Traffic::Kind kind,
                                  std::shared_ptr<Membership> membership) {
  auto check_whether_to_wait = [this, kind, what, membership = std::move(membership)] {
    check(membership);
    const bool asks = kind == Traffic::Kind::batch && options_.role != ClientRole::evaluator;
    if (asks && options_.give_up && options_.give_up()) throw GaveUp(what + ": told to stop");
  };
  return {std::move(what), options_.patience, kind, std::move(check_whether_to_wait),
          [this] { return ended(); }};
}

void Core::command(const std::string& what,
                   const std::vector<std::pair<std::uint32_t, Message>>& commands, const Said& said,
                   const std::shared_ptr<Membership>& membership) {
  Exchange exchange(directory_, traffic_, settings(what, Traffic::Kind::other, membership));
  for (const auto& [shard, command] : commands) {
    exchange.ask(shard, shard, calls::kCommand, calls::command_request(shard, command));
  }
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw Failure(what + ": shard " + std::to_string(result.shard) + ": " + result.answer.reason);
    }
    said(result.shard, reply_of(result.answer), result.repeated);
  }
}

// --- to begin with ---

void Core::initialize(std::span<const ReadView> values,
                      const std::vector<std::vector<std::span<const float>>>& slots,
                      std::uint64_t steps) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  layout.check(values);
  const auto& vectors = layout.description().vectors;
  if (!slots.empty() && slots.size() != vectors.size()) {
    throw UsageError("slots of " + std::to_string(slots.size()) + " vectors; the job has " +
                     std::to_string(vectors.size()));
  }
  for (std::size_t vector = 0; vector < slots.size(); ++vector) {
    for (const auto& slot : slots[vector]) {
      if (slot.size() == vectors[vector].elements) continue;
      throw UsageError("a slot of '" + vectors[vector].name + "' with " +
                       std::to_string(slot.size()) + " values; it has " +
                       std::to_string(vectors[vector].elements) + " elements");
    }
  }
  std::vector<std::pair<std::uint32_t, Message>> definitions;
  for (std::uint32_t shard = 0; shard < layout.shards(); ++shard) {
    definitions.emplace_back(shard, Message::of(define_command(layout.definition(shard))));
  }
  command("definition", definitions, [](std::uint32_t shard, const Reply& reply, bool) {
    if (reply.status == Status::done) return;
    throw UsageError("shard " + std::to_string(shard) + ": " + reply.message);
  });
  initialize_shards(layout, values, slots, steps);
  if (all_have_values(layout)) ask(calls::kInitialized, calls::encode_nothing());
}

void Core::initialize_shards(const Layout& layout, std::span<const ReadView> values,
                             const std::vector<std::vector<std::span<const float>>>& slots,
                             std::uint64_t steps) {
  std::vector<std::vector<InitialSlice>> left(layout.shards());  // the next one last
  for (const ReadView& view : values) {
    for (const Place& place : layout.of_vector(view.vector)) {
      InitialSlice slice{
          place.slice, steps, encoded(view.values.subspan(place.begin, place.size)), {}};
      if (!slots.empty()) {
        for (const auto& slot : slots[view.vector]) {
          slice.slots.push_back(encoded(slot.subspan(place.begin, place.size)));
        }
      }
      left[place.shard].push_back(std::move(slice));
    }
  }
  for (auto& slices : left) {
    std::sort(slices.begin(), slices.end(),
              [](const InitialSlice& a, const InitialSlice& b) { return a.slice > b.slice; });
  }
  Lending lending(directory_);
  Exchange exchange(directory_, traffic_, settings("initial values"));
  const auto ask_next = [&](std::uint32_t shard) {
    std::vector<InitialSlice> slices;
    std::uint64_t bytes = 0;
    std::vector<EncodedValues> arrays;
    while (!left[shard].empty()) {
      const InitialSlice& next = left[shard].back();
      std::uint64_t size = next.values.bytes().size();
      for (const EncodedValues& slot : next.slots) size += slot.bytes().size();
      if (!slices.empty() && bytes + size > kInitialBytes) break;
      bytes += size;
      arrays.push_back(next.values);
      arrays.insert(arrays.end(), next.slots.begin(), next.slots.end());
      slices.push_back(next);
      left[shard].pop_back();
    }
    if (slices.empty()) return;
    const Message command = lending.message(initialize_pieces(slices), arrays);
    exchange.ask(shard, shard, calls::kCommand, calls::command_request(shard, command));
  };
  for (std::uint32_t shard = 0; shard < layout.shards(); ++shard) ask_next(shard);
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    const std::string about = "initial values: shard " + std::to_string(result.shard) + ": ";
    if (result.answer.outcome == calls::Outcome::refused) {
      throw Failure(about + result.answer.reason);
    }
    const Reply reply = reply_of(result.answer);
    if (reply.status == Status::wrong_shape || reply.status == Status::not_finite) {
      throw UsageError(about + reply.message);
    }
    if (reply.status != Status::done) throw Failure(about + reply.message);
    ask_next(result.shard);
  }
}

bool Core::all_have_values(const Layout& layout) {
  Exchange exchange(directory_, traffic_, settings("initial values"));
  for (std::uint32_t shard = 0; shard < layout.shards(); ++shard) {
    calls::FetchRequest request;
    request.shard = shard;
    for (const Place& place : layout.of_shard(shard)) {
      request.ranges.push_back({place.slice, 0, 0, 0});
    }
    if (!request.ranges.empty()) exchange.ask(shard, shard, calls::kFetch, encode(request));
  }
  bool all = true;
  while (!exchange.empty()) all &= exchange.next().answer.outcome == calls::Outcome::done;
  return all;
}

// --- membership ---

void Core::join_shards(const std::shared_ptr<Membership>& membership, const Layout& layout,
                       std::optional<std::span<const std::uint32_t>> vectors) {
  membership->shards = layout.shards_of(vectors);
  const std::vector<std::uint32_t>& shards = membership->shards;
  const auto to_all = [&](const Bytes& command) {
    std::vector<std::pair<std::uint32_t, Message>> commands;
    for (const std::uint32_t shard : shards)
      commands.emplace_back(shard, Message::copy_of(command));
    return commands;
  };
  const std::string name = options_.name.substr(0, kMaxClientName);
  command(
      "join", to_all(join_command(membership->id, name)),
      [&](std::uint32_t shard, const Reply& reply, bool) {
        if (reply.status == Status::done) return;
        throw Failure("shard " + std::to_string(shard) + ": " + reply.message);
      },
      membership);
  // All processes of a replica number their pushes alike: the first ones are for catch_up().
  if (plan_.staleness_bound == 0) membership->sequence = calls::kCatchUp;
}

// As their primaries say. Nothing while one of them has yet to take its shard over, or to read its
// log: it is at a round of before.
std::optional<std::map<std::uint32_t, std::uint64_t>> Core::rounds() {
  std::map<std::uint32_t, std::uint64_t> rounds;
  const auto all = reports();
  for (const auto& [shard, report] : all) {
    if (report.role == static_cast<std::uint8_t>(replication::Role::primary)) {
      rounds[shard] = report.round;
    } else if (report.server != report.primary) {
      directory_.not_primary(shard, report.server, report.primary);
    }
  }
  if (rounds.size() == all.size()) return rounds;
  directory_.refresh();
  return std::nullopt;
}

// All shards know this replica by now, so that none completes a round any more without it: the
// latest round stays the latest. Others are one behind it where a round was under way, and more
// where a power cut took what their logs had not on the disk; all replicas catch up then.
void Core::catch_up(const std::shared_ptr<Membership>& membership, const Layout& layout) {
  struct Behind {
    std::uint64_t pushes = 0, round = 0;  // the last one was of this round
  };
  std::map<std::uint32_t, Behind> behind;
  const auto said = [&](std::uint32_t shard, const Reply& reply, bool) {
    if (reply.status == Status::done || reply.status == Status::collected) return;
    if (reply.status == Status::not_member) {
      membership->heartbeat->found_lost();
      throw_lost(reply.message);
    }
    throw Failure("shard " + std::to_string(shard) + ": " + reply.message);
  };
  for (; ended().empty(); std::this_thread::sleep_for(10ms)) {
    check(membership);
    const auto rounds = this->rounds();
    if (!rounds) continue;
    std::uint64_t latest = 0;
    for (const auto& [shard, round] : *rounds) {
      if (!layout.of_shard(shard).empty()) latest = std::max(latest, round);
    }
    bool there = true;
    std::vector<std::pair<std::uint32_t, Message>> commands;
    for (const std::uint32_t shard : membership->shards) {
      const std::uint64_t round = rounds->at(shard);
      if (round == latest) continue;
      there = false;
      Behind& at = behind[shard];
      if (at.pushes > 0 && round <= at.round) continue;  // others have yet to push theirs
      if (latest - round > calls::kCatchUp - at.pushes) {
        throw Failure("shard " + std::to_string(shard) + " is at round " + std::to_string(round) +
                      ", others are at " + std::to_string(latest));
      }
      at.round = round;
      const Push nothing{membership->id, ++at.pushes, 0, 0, {}, {}};
      commands.emplace_back(shard, Message::of(push_command(nothing)));
    }
    if (there) {
      membership->round = latest;
      return;
    }
    if (!commands.empty()) command("catch up", commands, said, membership);
  }
}

// --- rates, statistics ---

void Core::set_rates(std::span<const std::pair<std::uint32_t, double>> rates) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, double>>> left;  // by shard
  for (const auto& [vector, rate] : rates) {
    const auto& vectors = layout.description().vectors;
    if (vector >= vectors.size() || !vectors[vector].rule) {
      throw UsageError("there is no vector " + std::to_string(vector) + " with a learning rate");
    }
    for (const Place& place : layout.of_vector(vector)) {
      left[place.shard].emplace_back(place.slice, rate);
    }
  }
  // Clocks of hosts differ, and rates that were set before may have a later number.
  for (std::uint64_t ahead = 0; !left.empty(); ahead = 2 * ahead + 1000000) {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    last_ordinal_ = std::max(static_cast<std::uint64_t>(now) + ahead, last_ordinal_ + 1);
    std::vector<std::pair<std::uint32_t, Message>> commands;
    for (const auto& [shard, slices] : left) {
      commands.emplace_back(shard, Message::of(set_rates_command(last_ordinal_, slices)));
    }
    command("rates", commands, [&](std::uint32_t shard, const Reply& reply, bool repeated) {
      if (reply.status == Status::not_finite) throw UsageError(reply.message);
      if (reply.status == Status::superseded && !repeated) return;
      if (reply.status != Status::done && reply.status != Status::superseded) {
        throw Failure("rates: shard " + std::to_string(shard) + ": " + reply.message);
      }
      left.erase(shard);
    });
    if (ahead > std::uint64_t{1} << 62) throw Failure("rates: no number is large enough");
  }
}

std::map<std::uint32_t, calls::ShardReport> Core::reports() {
  Exchange exchange(directory_, traffic_, settings("report"));
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    exchange.ask(shard, shard, calls::kReport, calls::report_request(shard));
  }
  std::map<std::uint32_t, calls::ShardReport> reports;
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw Failure("report: shard " + std::to_string(result.shard) + ": " + result.answer.reason);
    }
    reports[result.shard] = calls::decode_report(result.answer.content);
  }
  return reports;
}

ShardTotals Core::totals() {
  ShardTotals sums;
  static_assert(StalenessHistogram::kEntries == std::tuple_size_v<decltype(sums.staleness)>);
  for (const auto& [shard, report] : reports()) {
    for (std::size_t i = 0; i < sums.staleness.size(); ++i)
      sums.staleness[i] += report.staleness.pushes[i];
    sums.pushed_bytes += report.pushed_bytes;
    sums.fetched_bytes += report.fetched_bytes;
  }
  return sums;
}

}  // namespace convoy::server::client
