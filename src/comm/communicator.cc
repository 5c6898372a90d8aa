#include "convoy/comm/communicator.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/alltoallv/alltoallv.h"
#include "comm/collectives/barrier/barrier.h"
#include "comm/collectives/broadcast/broadcast.h"
#include "comm/collectives/reproducible/agreement.h"
#include "comm/collectives/reproducible/allreduce.h"
#include "comm/collectives/reproducible/kernels.h"
#include "comm/collectives/ring/stream.h"
#include "comm/engine/call.h"
#include "comm/engine/engine.h"
#include "comm/engine/reserved.h"
#include "comm/internals.h"
#include "comm/shared_memory/reduction.h"
#include "comm/shared_memory/small_reduction.h"
#include "comm/shared_memory/spread.h"
#include "convoy/base/error.h"
#include "convoy/base/even_share.h"

namespace convoy::comm {
namespace {

// Compares this rank's call with those of others: where all share memory their slots hold them.
Task compare(Io& io, Node* node, Call call, std::uint64_t id) {
  if (node == nullptr) {
    Task neighbors = compare_calls(io, call);
    co_await neighbors;
    co_return;
  }
  SmallReduction nothing(*node, call, id, {}, ReduceOp::sum, 1);
  co_await end_of(nothing);
}

// Compares calls before anything else moves.
Task checked_first(Task comparison, Task body) {
  co_await comparison;
  co_await body;
}

Task keep_error(Task task, std::exception_ptr& error) {
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
}

// Compares calls while the data moves. Ranks that disagree may trip over each other's messages
// first; the comparison, which names both calls, has the first word all the same.
Task checked_beside(Task comparison, Task body) {
  std::exception_ptr error;
  std::vector<Branch> list;
  list.reserve(2);
  list.emplace_back(std::move(comparison));
  list.emplace_back(keep_error(std::move(body), error));
  co_await branches(list);
  if (error) std::rethrow_exception(error);
}

// Work in memory that ranks share: their slots hold the calls, which are compared there.
template <class Work, class... Arguments>
Task in_shared_memory(Node& node, Call call, std::uint64_t id, Arguments... arguments) {
  Work work(node, call, id, arguments...);
  co_await end_of(work);
}

template <class Work, class... Arguments>
Operation start_shared(const std::shared_ptr<Engine>& engine, const Medium& medium,
                       const Call& call, Arguments... arguments) {
  const auto body = [node = medium.locality->node, call, arguments...](Io&) {
    return in_shared_memory<Work>(*node, call, node->board().next_id(call.match), arguments...);
  };
  return Operation(engine->start(medium, call, body, Engine::By::memory));
}

// Work by messages. `check`: calls are compared before it, also where nobody asks for that.
Operation start_collective(const std::shared_ptr<Engine>& engine, const Medium& medium, Call call,
                           const std::function<Task(Io&)>& body, bool check = false) {
  const bool first = check || engine->options().check_calls;
  return Operation(engine->start(medium, call, [=](Io& io) -> Task {
    if (io.size() == 1) return body(io);
    // On one host all collectives compare calls in the same way, so that any two of them meet.
    Node* const node = medium.locality->one_node() ? medium.locality->node.get() : nullptr;
    Task comparison =
        compare(io, node, call, node == nullptr ? 0 : node->board().next_id(call.match));
    if (first) return checked_first(std::move(comparison), body(io));
    return checked_beside(std::move(comparison), body(io));
  }));
}

void check_rank(int rank, int size, const char* what) {
  if (rank < 0 || rank >= size) {
    throw UsageError(std::string(what) + " is rank " + std::to_string(rank) +
                     ", but there are only ranks 0 to " + std::to_string(size - 1));
  }
}

void check_can_use(const Communicator& c, const AllreduceChoice& choice, Type type) {
  if (c.size() == 1) return;
  const bool by_mpi = choice.algorithm == AllreduceAlgorithm::mpi;
  if (by_mpi && !mpi_has(type) && !CommunicatorInternals::reproducible(c)) {
    throw UsageError(std::string("MPI has no allreduce of ") + name_of(type) +
                     ": choose another algorithm in place of mpi");
  }
  if (CommunicatorInternals::abilities(c).allow(choice.algorithm)) return;
  if (by_mpi)
    throw UsageError("mpi: the ranks must be all of those that mpirun or srun has started");
  throw UsageError(std::string(name_of(choice.algorithm)) +
                   (choice.algorithm == AllreduceAlgorithm::shared
                        ? ": the ranks must be on one host and share memory"
                        : ": there must be several hosts with as many ranks on each, more than "
                          "one, that share memory"));
}

void check_contributions(std::span<const Buffer> contributions) {
  if (contributions.empty())
    throw UsageError("an allreduce of several contributions needs at least one of each rank");
  const Buffer& first = contributions.front();
  for (std::size_t i = 1; i < contributions.size(); ++i) {
    const Buffer& other = contributions[i];
    if (other.type == first.type && other.count == first.count) continue;
    throw UsageError("contribution " + std::to_string(i) + " of this rank has " +
                     std::to_string(other.count) + " x " + name_of(other.type) +
                     ", the first one has " + std::to_string(first.count) + " x " +
                     name_of(first.type));
  }
}

// In pieces, where it is longer than a message can be; an empty message is a message.
Task one_message(Io& io, bool sending, std::span<std::byte> data, int peer, int lane) {
  do {
    const auto part = data.first(std::min(data.size(), io.most_bytes()));
    Ticket ticket = sending ? io.send(peer, part, lane) : io.receive(peer, part, lane);
    co_await one(ticket);
    data = data.subspan(part.size());
  } while (!data.empty());
}

Task gather_task(Io& io, std::span<std::byte> mine, std::span<std::uint64_t> sizes,
                 std::vector<std::vector<std::byte>>& texts) {
  sizes[static_cast<std::size_t>(io.rank())] = mine.size();
  co_await ring_stream(io, Buffer(sizes.data(), sizes.size(), Type::i64), ReduceOp::sum,
                       RingPhases::allgather);
  std::vector<Branch> messages;
  for (int rank = 0; rank < io.size(); ++rank) {
    auto& text = texts[static_cast<std::size_t>(rank)];
    text.resize(sizes[static_cast<std::size_t>(rank)]);
    if (rank == io.rank()) {
      std::copy(mine.begin(), mine.end(), text.begin());
      continue;
    }
    messages.emplace_back(one_message(io, false, text, rank, 1));
    messages.emplace_back(one_message(io, true, mine, rank, 1));
  }
  co_await branches(messages);
}

}  // namespace

Chunk chunk(std::size_t count, int parts, int index) {
  const auto share =
      evenly(count, static_cast<std::size_t>(parts), static_cast<std::size_t>(index));
  return {share.begin, share.size};
}

Communicator::Communicator(std::shared_ptr<Engine> engine, std::shared_ptr<Transport> transport)
    : engine_(std::move(engine)),
      transport_(std::move(transport)),
      locality_(std::make_shared<Locality>()) {}

Medium Communicator::medium() const { return {transport_, locality_}; }
int Communicator::rank() const { return transport_->rank(); }
int Communicator::size() const { return transport_->size(); }
std::chrono::duration<double> Communicator::timeout() const { return engine_->options().timeout; }
bool Communicator::advance() const { return engine_->advance(); }
Traffic Communicator::traffic() const {
  return engine_->exclusively([&] { return transport_->traffic(); });
}

void CommunicatorInternals::locate(Communicator& c, const std::vector<std::string>& hosts) {
  c.locality_ = comm::locate(
      [&](std::string_view text) { return gather(c, Kind::split, text, reserved::kSetUp); },
      c.rank(), hosts, c.engine_->crowded());
}

Abilities CommunicatorInternals::abilities(const Communicator& c) {
  return {c.locality_->one_node(), c.locality_->even_nodes(),
          c.transport_->has_allreduce() && c.size() == c.engine_->root().size()};
}

bool CommunicatorInternals::reproducible(const Communicator& c) {
  return c.reproducible_.value_or(c.engine_->reproducible());
}

const AllreduceChoice& CommunicatorInternals::choose(const Communicator& c, std::size_t bytes) {
  const AllreduceSelection& selection = c.selection_ ? *c.selection_ : c.engine_->selection();
  return selection.choose(bytes, c.size(), std::max(1, c.locality_->map.nodes()), abilities(c));
}

Communicator Communicator::split(int color, int key) const {
  // The transport blocks until all ranks are there, and whoever waits for one that is not can't
  // even say so: first a wait that is watched.
  start_collective(engine_, medium(), make_own_call(Kind::split, {}, reserved::kSplit), [](Io& io) {
    return barrier_dissemination(io);
  }).wait();
  std::unique_ptr<Transport> transport =
      engine_->exclusively([&] { return transport_->split(color, key); });
  if (!transport) return {};
  Communicator part(engine_, engine_->keep(std::move(transport)));
  part.selection_ = selection_;
  part.reproducible_ = reproducible_;
  CommunicatorInternals::locate(part, engine_->hosts_of(*part.transport_));
  return part;
}
Communicator Communicator::with_allreduce(std::string_view rules) const {
  Communicator part = duplicate();
  const char* const source = "rules of a communicator";
  const std::string difference = difference_of_selections(
      CommunicatorInternals::gather(part, Kind::split, rules, reserved::kSetUp), source);
  if (!difference.empty()) throw UsageError(difference);
  part.selection_ = std::make_shared<AllreduceSelection>(rules, source);
  return part;
}

Communicator Communicator::with_reproducible(bool on) const {
  Communicator part = duplicate();
  std::vector<bool> all;
  for (const std::string& text :
       CommunicatorInternals::gather(part, Kind::split, on ? "1" : "", reserved::kSetUp))
    all.push_back(!text.empty());
  const std::string difference = difference_of_reproducible(all, "Communicator::with_reproducible");
  if (!difference.empty()) throw UsageError(difference);
  part.reproducible_ = on;
  return part;
}

bool Communicator::reproducible() const { return CommunicatorInternals::reproducible(*this); }

Communicator Communicator::duplicate() const { return split(0, rank()); }

Operation Communicator::start_send(ConstBuffer data, int to, Match match) const {
  check_rank(to, size(), "the receiver");
  const Buffer buffer(const_cast<void*>(data.data), data.count, data.type);  // only read
  return Operation(engine_->start(medium(), make_call(Kind::send, data, match, to), [=](Io& io) {
    return one_message(io, true, bytes_of(buffer), to, Io::kMessageLane);
  }));
}
Operation Communicator::start_receive(Buffer data, int from, Match match) const {
  check_rank(from, size(), "the sender");
  return Operation(engine_->start(
      medium(), make_call(Kind::receive, data, match, from),
      [=](Io& io) { return one_message(io, false, bytes_of(data), from, Io::kMessageLane); }));
}

Operation Communicator::start_broadcast(Buffer data, int root, Match match) const {
  check_rank(root, size(), "the root");
  const Call call = make_call(Kind::broadcast, data, match, root);
  if (locality_->one_node()) {
    Slices slices(static_cast<std::size_t>(size()));
    slices[static_cast<std::size_t>(root)] = {0, data.count};
    return start_shared<SharedSpread>(engine_, medium(), call, data, slices);
  }
  return start_collective(engine_, medium(), call,
                          [=](Io& io) { return broadcast_binomial(io, data, root); });
}

Operation Communicator::start_allreduce(Buffer data, ReduceOp op, Match match) const {
  return CommunicatorInternals::start_allreduce(
      *this, data, op, CommunicatorInternals::choose(*this, data.bytes()), match);
}

Operation CommunicatorInternals::start_allreduce(const Communicator& c, Buffer data, ReduceOp op,
                                                 const AllreduceChoice& choice, Match match) {
  const Call call = make_reduction(Kind::allreduce, data, op, match);
  check_can_use(c, choice, data.type);
  const Medium medium = c.medium();
  const auto body = [=, locality = medium.locality.get(), reproducible = reproducible(c)](Io& io) {
    return reproducible ? allreduce_reproducible(io, *locality, call, data, op, choice)
                        : comm::allreduce(io, *locality, call, data, op, choice);
  };
  if (choice.algorithm == AllreduceAlgorithm::shared)
    return Operation(c.engine_->start(medium, call, body, Engine::By::memory));
  return start_collective(c.engine_, medium, call, body,
                          choice.algorithm == AllreduceAlgorithm::mpi);
}

Operation Communicator::start_allreduce_of_several(std::span<const Buffer> contributions,
                                                   ReduceOp op, Match match) const {
  check_contributions(contributions);
  return CommunicatorInternals::start_allreduce_of_several(
      *this, contributions, op, CommunicatorInternals::choose(*this, contributions.front().bytes()),
      match);
}

Operation CommunicatorInternals::start_allreduce_of_several(const Communicator& c,
                                                            std::span<const Buffer> contributions,
                                                            ReduceOp op,
                                                            const AllreduceChoice& choice,
                                                            Match match) {
  check_contributions(contributions);
  check_can_use(c, choice, Type::i32);  // whole numbers are what travels
  Call call = make_reduction(Kind::allreduce, contributions.front(), op, match);
  call.peer = static_cast<std::int32_t>(contributions.size());
  const Medium medium = c.medium();
  const std::vector<Buffer> all(contributions.begin(), contributions.end());
  // Not by memory alone, whatever the algorithm is: there are several steps, which later calls with
  // the same match must not come between.
  return start_collective(
      c.engine_, medium, call,
      [call, op, choice, all, locality = medium.locality.get()](Io& io) {
        return allreduce_of_several(io, *locality, call, all, op, choice);
      },
      choice.algorithm == AllreduceAlgorithm::mpi);
}

void CommunicatorInternals::allreduce(const Communicator& c, Buffer data, ReduceOp op,
                                      const AllreduceChoice& choice, Match match) {
  if (!reduce_at_once(c, data, op, choice, match))
    start_allreduce(c, data, op, choice, match).wait();
}

Operation Communicator::start_reduce_scatter(Buffer data, ReduceOp op, Match match) const {
  const Call call = make_reduction(Kind::reduce_scatter, data, op, match);
  const bool reproducible = CommunicatorInternals::reproducible(*this);
  if (locality_->one_node())
    return start_shared<SharedReduction>(engine_, medium(), call, data, op, divisor_of(op, size()),
                                         false, reproducible ? reduce_reproducibly : reduce_all);
  return start_collective(engine_, medium(), call, [=](Io& io) {
    return reproducible ? reduce_scatter_reproducible(io, data, op)
                        : ring_stream(io, data, op, RingPhases::reduce_scatter);
  });
}

Operation Communicator::start_allgather(Buffer data, Match match) const {
  const Call call = make_call(Kind::allgather, data, match);
  if (locality_->one_node()) {
    return start_shared<SharedSpread>(engine_, medium(), call, data,
                                      equal_slices(data.count, static_cast<std::size_t>(size())));
  }
  return start_collective(engine_, medium(), call, [=](Io& io) {
    return ring_stream(io, data, ReduceOp::sum, RingPhases::allgather);
  });
}

Operation Communicator::start_barrier(Match match) const {
  const Call call = make_call(Kind::barrier, {}, match);
  if (locality_->one_node())
    return start_shared<SmallReduction>(engine_, medium(), call, Buffer(), ReduceOp::sum, 1);
  return start_collective(engine_, medium(), call,
                          [](Io& io) { return barrier_dissemination(io); });
}

Operation Communicator::start_alltoallv(ConstBuffer send, Parts send_parts, Buffer receive,
                                        Parts receive_parts, Match match) const {
  if (send.type != receive.type)
    throw UsageError("alltoallv: both buffers must have the same type");
  auto out = byte_parts(send_parts, size(), send.count, send.type, "the send side");
  auto in = byte_parts(receive_parts, size(), receive.count, receive.type, "the receive side");
  const auto me = static_cast<std::size_t>(rank());
  if (out[me].bytes != in[me].bytes) {
    throw UsageError("alltoallv: rank " + std::to_string(rank()) + " sends itself " +
                     std::to_string(send_parts.counts[me]) + " elements and expects " +
                     std::to_string(receive_parts.counts[me]));
  }
  const std::size_t segment = locality_->one_node() ? kSegmentOnOneHost : kSegmentBetweenHosts;
  return start_collective(engine_, medium(), make_call(Kind::alltoallv, send, match), [=](Io& io) {
    return alltoallv_spread(io, send, out, receive, in, segment);
  });
}

std::vector<std::string> CommunicatorInternals::gather(const Communicator& c, Kind kind,
                                                       std::string_view text, Match match) {
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(c.size()));
  std::vector<std::vector<std::byte>> texts(sizes.size());
  // Only read.
  const std::span mine(reinterpret_cast<std::byte*>(const_cast<char*>(text.data())), text.size());
  const ConstBuffer data(text.data(), text.size(), Type::u8);
  start_collective(c.engine_, c.medium(), make_own_call(kind, data, match), [&, mine](Io& io) {
    return gather_task(io, mine, sizes, texts);
  }).wait();
  std::vector<std::string> result;
  for (const auto& bytes : texts)
    result.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return result;
}

}  // namespace convoy::comm
