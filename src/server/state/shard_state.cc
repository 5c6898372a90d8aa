#include "server/state/shard_state.h"

#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server {
namespace {

// Blocks that hold the values and slots given.
FrozenBlocks blocks_of(const InitialSlice& initial, const std::optional<optim::Rule>& rule) {
  const optim::Slots slots = rule ? optim::slots(*rule) : optim::Slots();
  const std::uint64_t size = initial.values.size();
  FrozenBlocks blocks;
  for (std::size_t i = 0; i < stripes_of(size); ++i) {
    auto* block = new Block(stripe_size(size, i), 1 + slots.size());
    blocks.push_back(BlockPtr(block));
    const std::uint64_t begin = i * StripedVector::kStripe;
    initial.values.decode(begin, block->array(0));
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const auto slot = block->array(s + 1);
      if (initial.slots.empty()) {
        std::fill(slot.begin(), slot.end(), static_cast<float>(slots[s].initial));
      } else {
        initial.slots[s].decode(begin, slot);
      }
    }
  }
  return blocks;
}

// Half of what a saved state may say: no number of updates leads from one to the other.
constexpr std::uint64_t kMaxInitialVersion = std::uint64_t{1} << 61;

// What is wrong with it, or a reply that says done.
Reply check_initial(const InitialSlice& initial, const SliceDefinition& slice) {
  const auto about = [&](const std::string& what) {
    return "slice of '" + slice.name + "': " + what;
  };
  if (initial.version > kMaxInitialVersion) {
    return refused(Status::wrong_shape, about("no slice has had so many updates"));
  }
  const std::size_t slots = slice.rule ? optim::slots(*slice.rule).size() : 0;
  if (!initial.slots.empty() && initial.slots.size() != slots) {
    return refused(Status::wrong_shape,
                   about(std::to_string(initial.slots.size()) + " slots of state; its rule has " +
                         std::to_string(slots)));
  }
  const auto check_values = [&](const EncodedValues& values, const char* what) {
    if (values.size() != slice.size) {
      return refused(Status::wrong_shape,
                     about(std::to_string(values.size()) + " initial " + what + "; it has " +
                           std::to_string(slice.size) + " elements"));
    }
    if (!values.finite()) {
      return refused(Status::not_finite, about(std::string("an initial one of its ") + what +
                                               " is infinite or no number"));
    }
    return Reply{};
  };
  Reply reply = check_values(initial.values, "values");
  for (const EncodedValues& slot : initial.slots) {
    if (reply.status == Status::done) reply = check_values(slot, "elements of state");
  }
  return reply;
}

}  // namespace

Reply refused(Status status, std::string message) {
  Reply reply;
  reply.status = status;
  reply.message = std::move(message);
  return reply;
}

// All commands. A new one is a number, a handler and its line here.
const ShardState::Entry ShardState::kCommands[] = {
    {CommandNumber::define, &ShardState::define},
    {CommandNumber::initialize, &ShardState::initialize},
    {CommandNumber::push, &ShardState::push},
    {CommandNumber::set_rates, &ShardState::set_rates},
    {CommandNumber::join, &ShardState::join},
    {CommandNumber::leave, &ShardState::leave},
    {CommandNumber::forget, &ShardState::forget},
    {CommandNumber::cut, &ShardState::cut},
    {CommandNumber::drop_cut, &ShardState::drop_cut},
    {CommandNumber::space, &ShardState::space},
    {CommandNumber::put, &ShardState::put},
    {CommandNumber::combine, &ShardState::combine},
    {CommandNumber::multiply, &ShardState::multiply},
    {CommandNumber::keep, &ShardState::keep},
    {CommandNumber::evaluate, &ShardState::evaluate},
    {CommandNumber::gradient, &ShardState::gradient},
};

ShardState::ShardState(std::uint64_t memory_limit) : memory_limit_(memory_limit) {}

std::uint64_t ShardState::applied() const {
  const std::shared_lock lock(mutex_);
  return data_.applied;
}

Bytes ShardState::apply(std::uint64_t index, std::span<const std::byte> command) {
  if (index != data_.applied + 1) {
    throw UsageError("command " + std::to_string(index) + " was given to a shard that expects " +
                     std::to_string(data_.applied + 1));
  }
  Reply reply;
  try {
    // Handlers read all of a command before they change anything: what throws has no effect.
    Reader reader(command, "command");
    reader.version(kCommandVersion);
    const auto number = static_cast<CommandNumber>(reader.u8());
    Handler handler = nullptr;
    for (const Entry& entry : kCommands) {
      if (entry.number == number) handler = entry.handler;
    }
    if (handler == nullptr) reader.refuse("no command has this number");
    Context context{index, command, reader};
    reply = (this->*handler)(context);
  } catch (const UsageError& error) {
    reply = refused(Status::malformed, error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    data_.applied = index;
  }
  // A repeated push gets the reply of its first time, index included.
  if (reply.index == 0) {
    reply.index = index;
    reply.round = data_.round;
  }
  return encode(reply);
}

Reply ShardState::define(Context& context) {
  Definition definition = read_definition(context.reader);
  context.reader.end();
  if (data_.definition) {
    if (*data_.definition == definition) return {};
    return refused(Status::conflict, "the shard was defined before, with other slices or rules");
  }
  if (definition.slices.size() > 0 && memory_of(definition) > memory_limit_) {
    return refused(Status::full, "the slices take " + std::to_string(memory_of(definition)) +
                                     " bytes; the shard has " + std::to_string(memory_limit_));
  }
  const std::lock_guard lock(mutex_);
  data_.slices.resize(definition.slices.size());
  for (const SliceDefinition& slice : definition.slices) {
    data_.rates.push_back(slice.rule ? optim::learning_rate(*slice.rule) : 0);
  }
  data_.definition = std::move(definition);
  return {};
}

Reply ShardState::initialize(Context& context) {
  Reader& reader = context.reader;
  std::vector<InitialSlice> slices(reader.count(4 + 8 + 1 + 8 + 1));
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i].slice = reader.u32();
    slices[i].version = reader.u64();
    slices[i].values = reader.values();
    slices[i].slots.resize(reader.u8());
    for (EncodedValues& slot : slices[i].slots) slot = reader.values();
    if (i > 0 && slices[i].slice <= slices[i - 1].slice) reader.refuse("slices don't ascend");
  }
  reader.end();
  if (!data_.definition) return refused(Status::not_initialized, "the shard has no definition yet");
  const auto& definitions = data_.definition->slices;
  for (const InitialSlice& slice : slices) {
    if (slice.slice >= definitions.size()) {
      return refused(Status::wrong_shape, "there is no slice " + std::to_string(slice.slice));
    }
    Reply reply = check_initial(slice, definitions[slice.slice]);
    if (reply.status != Status::done) return reply;
  }
  for (const InitialSlice& slice : slices) {
    if (data_.slices[slice.slice]) continue;  // the first one won
    auto made = std::make_shared<ShardSlice>(slice.version,
                                             blocks_of(slice, definitions[slice.slice].rule));
    const std::lock_guard lock(mutex_);
    data_.slices[slice.slice] = std::move(made);
  }
  return {};
}

Reply ShardState::set_rates(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  std::vector<std::pair<std::uint32_t, double>> rates(reader.count(4 + 8));
  for (auto& [slice, rate] : rates) {
    slice = reader.u32();
    rate = reader.f64();
  }
  reader.end();
  if (!data_.definition) return refused(Status::not_initialized, "the shard has no definition yet");
  if (ordinal <= data_.rate_ordinal) {
    return refused(Status::superseded, "rates of a later point were set before");
  }
  for (const auto& [slice, rate] : rates) {
    if (slice >= data_.rates.size() || !data_.definition->slices[slice].rule) {
      return refused(Status::wrong_shape,
                     "there is no slice " + std::to_string(slice) + " that has a learning rate");
    }
    if (!std::isfinite(rate) || rate < 0) {
      return refused(Status::not_finite, "a learning rate has to be a number, 0 or more");
    }
  }
  const std::lock_guard lock(mutex_);
  data_.rate_ordinal = ordinal;
  for (const auto& [slice, rate] : rates) data_.rates[slice] = rate;
  return {};
}

Reply ShardState::join(Context& context) {
  const std::uint64_t id = context.reader.u64();
  std::string name = context.reader.text(kMaxClientName);
  context.reader.end();
  const std::lock_guard lock(mutex_);
  if (!data_.clients.contains(id) && data_.clients.size() >= kMaxClients) {
    return refused(Status::full, "the shard knows " + std::to_string(kMaxClients) +
                                     " clients; forget some that left");
  }
  ClientRecord& client = data_.clients[id];
  client.member = true;
  client.name = std::move(name);
  Reply reply;
  reply.sequence = client.sequence;
  return reply;
}

Reply ShardState::leave(Context& context) {
  const std::uint64_t id = context.reader.u64();
  context.reader.end();
  const auto found = data_.clients.find(id);
  if (found == data_.clients.end()) return refused(Status::not_member, who(id) + " never joined");
  {
    const std::lock_guard lock(mutex_);
    found->second.member = false;
    found->second.statistics.clear();
  }
  complete_round();  // the others may have waited for this one
  Reply reply;
  reply.sequence = found->second.sequence;
  reply.content = progress_content(found->second.progress);
  return reply;
}

Reply ShardState::forget(Context& context) {
  const std::uint64_t id = context.reader.u64();
  context.reader.end();
  const auto found = data_.clients.find(id);
  if (found == data_.clients.end()) return {};
  if (found->second.member) {
    return refused(Status::conflict, who(id) + " is still a member; it has to leave first");
  }
  const std::lock_guard lock(mutex_);
  data_.clients.erase(found);
  return {};
}

Reply ShardState::cut(Context& context) {
  const std::uint64_t id = context.reader.u64();
  context.reader.end();
  if (data_.cuts.contains(id)) return {};
  if (data_.cuts.size() >= kMaxCuts) {
    return refused(Status::full,
                   "the shard keeps " + std::to_string(kMaxCuts) + " cuts; drop one that was read");
  }
  auto cut = std::make_shared<ShardCut>();
  cut->index = context.index;
  cut->round = data_.round;
  cut->clients = data_.last_pushes();
  cut->slices = data_.freeze();
  const std::lock_guard lock(mutex_);
  data_.cuts.emplace(id, std::move(cut));
  return {};
}

Reply ShardState::drop_cut(Context& context) {
  const std::uint64_t id = context.reader.u64();
  context.reader.end();
  std::shared_ptr<const ShardCut> dropped;  // freed behind the lock
  const std::lock_guard lock(mutex_);
  const auto found = data_.cuts.find(id);
  if (found == data_.cuts.end()) return {};
  dropped = std::move(found->second);
  data_.cuts.erase(found);
  return {};
}

}  // namespace convoy::server
