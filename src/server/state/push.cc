// Pushes: one after the other, or in rounds.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "server/state/shard_state.h"

namespace convoy::server {
namespace {

// A push that waits for its round, taken apart.
Push parsed(const Bytes& command) {
  Reader reader(command, "push");
  reader.version(kCommandVersion);
  reader.u8();
  return read_push(reader);
}

}  // namespace

// Of float32: what is less is done before another thread has begun.
constexpr std::size_t kStripesWorthwhile = 8;

void ShardState::use(std::size_t parts, Parallel parallel) {
  parts_ = parts;
  parallel_ = std::move(parallel);
}

void ShardState::in_parts(
    std::size_t stripes,
    const std::function<void(std::size_t begin, std::size_t end)>& each) const {
  if (parts_ < 2 || stripes < kStripesWorthwhile) return each(0, stripes);
  parallel_(parts_, [&](std::size_t part) {
    each(stripes * part / parts_, stripes * (part + 1) / parts_);
  });
}

// One update of a slice: its rule's step, or without one `values += scale * gradient`.
void ShardState::update(ShardSlice& slice, const std::optional<optim::Rule>& rule, float scale,
                        const Gradient& gradient) const {
  const std::uint64_t version = slice.version.load(std::memory_order_relaxed) + 1;
  in_parts(slice.vector.stripes(), [&](std::size_t begin, std::size_t end) {
    Scratch scratch;
    for (std::size_t i = begin; i < end; ++i) {
      slice.vector.change(i, [&](Block& block) {
        const std::span<const float> g =
            gradient(i * StripedVector::kStripe, block.size(), scratch);
        const std::span<float> values = block.array(0);
        if (!rule) {
          for (std::size_t k = 0; k < values.size(); ++k) values[k] += scale * g[k];
          return;
        }
        std::span<float> slots[optim::Slots::kMaxSlots];
        for (std::size_t s = 1; s < block.arrays(); ++s) slots[s - 1] = block.array(s);
        optim::update<float>(*rule, static_cast<std::int64_t>(version), values, g,
                             std::span<const std::span<float>>(slots, block.arrays() - 1));
      });
    }
  });
  slice.version.store(version, std::memory_order_release);
}

bool ShardState::finite(const EncodedValues& values) const {
  std::atomic<bool> all = true;
  in_parts(stripes_of(values.size()), [&](std::size_t begin, std::size_t end) {
    const std::uint64_t first = begin * StripedVector::kStripe;
    const std::uint64_t last = std::min<std::uint64_t>(end * StripedVector::kStripe, values.size());
    if (!values.part(first, last - first).finite()) all = false;
  });
  return all;
}

std::string ShardState::who(std::uint64_t id) const {
  const auto found = data_.clients.find(id);
  const std::string number = "client " + std::to_string(id);
  if (found == data_.clients.end() || found->second.name.empty()) return number;
  return number + " (" + found->second.name + ")";
}

Reply ShardState::push(Context& context) {
  const Push push = read_push(context.reader);
  if (push.sequence == 0) context.reader.refuse("sequence numbers of pushes begin with 1");
  const auto found = data_.clients.find(push.client);
  if (found == data_.clients.end()) {
    return refused(Status::not_member, who(push.client) + " has not joined");
  }
  ClientRecord& client = found->second;
  if (push.sequence == client.sequence) return client.reply;
  if (push.sequence < client.sequence) {
    return refused(Status::superseded, who(push.client) + ": its push " +
                                           std::to_string(client.sequence) + " came before " +
                                           std::to_string(push.sequence));
  }
  std::vector<std::uint64_t> staleness;  // of each slice
  Reply reply = decide(push, client, staleness);
  reply.sequence = push.sequence;
  const bool accepted = reply.status == Status::done;
  const bool rounds = data_.definition && data_.definition->staleness_bound == 0;
  if (accepted && !rounds) apply_now(push, staleness);
  {
    const std::lock_guard lock(mutex_);
    if (accepted) {
      client.pushes += 1;
      client.samples += push.samples;
      client.progress = push.progress;
      if (!rounds) client.applied_progress = push.progress;
      data_.staleness.add(reply.staleness);
      if (rounds) {
        data_.collected.emplace(
            push.client, std::make_shared<const Bytes>(context.bytes.begin(), context.bytes.end()));
      }
    }
    client.refused_not_finite += reply.status == Status::not_finite;
    client.refused_shape += reply.status == Status::wrong_shape;
    client.refused_stale += reply.status == Status::fetch_again;
  }
  if (accepted && rounds) {
    const std::uint64_t round = data_.round;
    complete_round();
    if (data_.round == round) reply.status = Status::collected;
  }
  reply.index = context.index;
  reply.round = data_.round;
  const std::lock_guard lock(mutex_);
  client.sequence = push.sequence;
  client.reply = reply;
  return reply;
}

Reply ShardState::decide(const Push& push, const ClientRecord& client,
                         std::vector<std::uint64_t>& staleness) const {
  const auto about = [&](const std::string& what) { return who(push.client) + ": " + what; };
  if (!client.member) return refused(Status::not_member, about("it has left; join again"));
  if (!data_.definition) return refused(Status::not_initialized, "the shard has no definition yet");
  if (push.samples == 0 && !push.slices.empty()) {
    return refused(Status::wrong_shape, about("0 samples can't have a gradient"));
  }
  Reply reply;
  for (const PushedSlice& pushed : push.slices) {
    if (pushed.slice >= data_.slices.size()) {
      return refused(Status::wrong_shape,
                     about("there is no slice " + std::to_string(pushed.slice)));
    }
    const SliceDefinition& definition = data_.definition->slices[pushed.slice];
    const auto slice = about("slice of '" + definition.name + "': ");
    if (pushed.values.size() != definition.size) {
      return refused(Status::wrong_shape, slice + std::to_string(pushed.values.size()) +
                                              " values; it has " + std::to_string(definition.size) +
                                              " elements");
    }
    if (!data_.slices[pushed.slice]) {
      return refused(Status::not_initialized, slice + "it has no values yet");
    }
    const std::uint64_t version = data_.slices[pushed.slice]->version;
    if (pushed.version > version) {
      return refused(Status::conflict, slice + "version " + std::to_string(pushed.version) +
                                           " can't have been fetched, it is at " +
                                           std::to_string(version));
    }
    staleness.push_back(version - pushed.version);
    reply.staleness = std::max(reply.staleness, staleness.back());
  }
  if (reply.staleness > data_.definition->staleness_bound) {
    Reply stale =
        refused(Status::fetch_again,
                about(std::to_string(reply.staleness) + " versions have passed, " +
                      std::to_string(data_.definition->staleness_bound) + " may: fetch again"));
    stale.staleness = reply.staleness;
    return stale;
  }
  if (data_.collected.contains(push.client)) {
    return refused(Status::fetch_again, about("this round has its push: fetch the next one"));
  }
  for (const PushedSlice& pushed : push.slices) {
    if (finite(pushed.values)) continue;
    return refused(Status::not_finite,
                   about("slice of '" + data_.definition->slices[pushed.slice].name +
                         "': a value is infinite or no number"));
  }
  return reply;
}

void ShardState::note_statistics(const Push& push) {
  const std::lock_guard lock(mutex_);
  ClientRecord& client = data_.clients.at(push.client);
  for (const PushedSlice& pushed : push.slices) {
    if (!data_.definition->slices[pushed.slice].rule) client.statistics.insert(pushed.slice);
  }
}

// Of the processes of one replica, only one has it; and who has yet to push slows nobody down.
std::ptrdiff_t ShardState::pushers(std::uint32_t slice) const {
  return std::count_if(data_.clients.begin(), data_.clients.end(), [&](const auto& client) {
    return client.second.member && client.second.statistics.contains(slice);
  });
}

void ShardState::apply_now(const Push& push, const std::vector<std::uint64_t>& staleness) {
  note_statistics(push);
  for (std::size_t i = 0; i < push.slices.size(); ++i) {
    const PushedSlice& pushed = push.slices[i];
    std::optional<optim::Rule> rule = data_.definition->slices[pushed.slice].rule;
    if (rule) {
      double rate = data_.rates[pushed.slice];
      if (data_.definition->scale_by_staleness && staleness[i] > 1) {
        rate /= static_cast<double>(staleness[i]);
      }
      optim::set_learning_rate(*rule, rate);
    }
    // A statistic moves by the mean of what its pushers' own have moved: as fast as one's.
    const float scale = rule ? 1 : 1 / static_cast<float>(pushers(pushed.slice));
    update(*data_.slices[pushed.slice], rule, scale,
           [&](std::uint64_t begin, std::size_t count, Scratch& scratch) {
             scratch.one.resize(StripedVector::kStripe);
             return pushed.values.view(begin, count, scratch.one);
           });
  }
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t id : push.ids) data_.ledger.add(id);
}

// Applies the pushes of this round if there are any and every member's is there.
void ShardState::complete_round() {
  if (data_.collected.empty()) return;
  for (const auto& [id, client] : data_.clients) {
    if (client.member && !data_.collected.contains(id)) return;
  }
  std::vector<Push> pushes;  // in the order of clients
  for (const auto& [id, command] : data_.collected) pushes.push_back(parsed(*command));

  struct Share {
    const EncodedValues* values;
    double samples;
  };
  // In order: clients take the new version of the last slice that they pushed for the round's end.
  for (std::uint32_t i = 0; i < data_.slices.size(); ++i) {
    std::vector<Share> shares;
    double total = 0;
    for (const Push& push : pushes) {
      for (const PushedSlice& pushed : push.slices) {
        if (pushed.slice != i) continue;
        shares.push_back({&pushed.values, static_cast<double>(push.samples)});
        total += static_cast<double>(push.samples);
      }
    }
    if (shares.empty()) continue;
    std::optional<optim::Rule> rule = data_.definition->slices[i].rule;
    if (rule) optim::set_learning_rate(*rule, data_.rates[i]);
    update(*data_.slices[i], rule, 1,
           [&](std::uint64_t begin, std::size_t count, Scratch& scratch) {
             scratch.one.resize(StripedVector::kStripe);
             // Of one alone also the bits are the mean.
             if (shares.size() == 1) return shares[0].values->view(begin, count, scratch.one);
             scratch.sum.assign(count, 0.0F);
             for (const Share& share : shares) {
               const auto weight = static_cast<float>(share.samples / total);
               const auto g = share.values->view(begin, count, scratch.one);
               for (std::size_t k = 0; k < count; ++k) scratch.sum[k] += weight * g[k];
             }
             return std::span<const float>(scratch.sum);
           });
  }
  decltype(data_.collected) applied;  // freed behind the lock
  const std::lock_guard lock(mutex_);
  for (const Push& push : pushes) {
    for (const std::uint64_t id : push.ids) data_.ledger.add(id);
    // One that left and was forgotten has no record any more.
    const auto client = data_.clients.find(push.client);
    if (client != data_.clients.end()) client->second.applied_progress = push.progress;
  }
  data_.collected.swap(applied);
  ++data_.round;
}

}  // namespace convoy::server
