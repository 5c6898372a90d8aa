// Collective and point-to-point communication among a group of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "convoy/comm/operation.h"
#include "convoy/comm/registered.h"
#include "convoy/comm/transport.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

class AllreduceSelection;
class Engine;
struct Locality;
struct Medium;

// These are the ranks of a world, or a part of them made by split(). Copies refer to the same
// group.
//
// Every collective must be called by every rank of the group with the same Match, type, count
// (where one is given for all) and operation; ranks that disagree get a Failure that names two of
// them and their calls, before any data moves when the world checks calls first
// (WorldOptions::check_calls), and otherwise before the operation is done.
//
// start_* returns at once; the plain forms wait. Both may be called from any thread. With one rank,
// everything completes at once. Any number of operations may be in flight, started in any order:
// between hosts as memory allows, and 16,384 of a communicator among the ranks of one host (fewer
// where /dev/shm has no room for them). Those beyond wait for others to end, in the order in which
// they were started; ranks that start so many in different orders may wait for each other, which
// ends like any wait, after the timeout and with names. An operation may outlive the communicator
// that it was started from.
class Communicator {
 public:
  Communicator() = default;  // refers to no group; only assignment is allowed
  Communicator(std::shared_ptr<Engine> engine, std::shared_ptr<Transport> transport);

  int rank() const;
  int size() const;

  // Says how long an operation may wait for its peers: WorldOptions::timeout.
  std::chrono::duration<double> timeout() const;

  // Makes groups of the ranks that give the same color (>= 0), ordered by (key, rank). Collective;
  // blocking; a rank that does not call it is named after the timeout, as in any operation. Call it
  // while no operation is in flight. The operations of the new communicator are independent of this
  // one's: their Match values don't meet. A rank with color < 0 gets an invalid communicator.
  Communicator split(int color, int key = 0) const;
  // Gives the same group, with Match values of its own.
  Communicator duplicate() const;
  // Gives the same group, whose allreduces follow these rules, in the grammar of
  // WorldOptions::allreduce, and the built-in ones after them, as do those of its parts and
  // duplicates. Throws UsageError on every rank when ranks give different ones, or one can't be
  // read.
  Communicator with_allreduce(std::string_view rules) const;
  // Gives the same group, whose reductions are reproducible or not, whatever
  // WorldOptions::reproducible says. Parts and duplicates of it do as it does. Throws UsageError on
  // every rank when ranks differ.
  Communicator with_reproducible(bool on) const;
  // Says whether its reductions are reproducible.
  bool reproducible() const;
  bool valid() const { return transport_ != nullptr; }

  // Gives `bytes` of zeroed memory, aligned to a page, for buffers that are used in many
  // collectives. Collective over the group, blocking; the size may differ among ranks. Where the
  // ranks of a host can't share as much, all of them get ordinary memory.
  RegisteredMemory allocate(std::size_t bytes) const;

  // --- Point to point. The sizes of both sides must agree. ---
  Operation start_send(ConstBuffer data, int to, Match match = {}) const;
  Operation start_receive(Buffer data, int from, Match match = {}) const;
  void send(ConstBuffer data, int to, Match match = {}) const;
  void receive(Buffer data, int from, Match match = {}) const;

  // --- Collectives. What moves is stated per rank, for p ranks and S bytes. ---

  // Among the ranks of one host all but alltoallv go through memory that they share, without
  // messages; what is said here of bytes sent is between hosts.

  // Brings the root's data everywhere. Binomial tree, in segments; at most S·ceil(log2 p) sent.
  Operation start_broadcast(Buffer data, int root, Match match = {}) const;
  void broadcast(Buffer data, int root, Match match = {}) const;

  // Makes the element-wise reduction of every rank's data everywhere, in place; the same bits on
  // every rank. Up to 32 KiB: recursive doubling, S·ceil(log2 p) sent; above: ring, 2·S·(p-1)/p
  // sent, or multicolor between hosts of several ranks each; or as WorldOptions::allreduce says.
  // Reproducible ones (WorldOptions::reproducible, with_reproducible()) cost up to twice the steps
  // and, of f32, 1.25 times the bytes between hosts; docs/communication.md has the other types.
  Operation start_allreduce(Buffer data, ReduceOp op, Match match = {}) const;
  void allreduce(Buffer data, ReduceOp op, Match match = {}) const;

  // Reduces contributions of which each rank has several, one for each of its devices say: as many
  // on every rank, of one type and count, in memory of their own each. The result has the bits that
  // a reproducible allreduce gives among as many ranks as there are contributions, with one each;
  // an average is divided by their number. Each rank has it in contributions[0]; what is in the
  // others then is not defined. It is reproducible in every communicator, and costs what a
  // reproducible allreduce does, however many contributions a rank has. One alone, of one rank, is
  // left as it is. Throws UsageError for none, and for contributions that differ in type or count.
  Operation start_allreduce_of_several(std::span<const Buffer> contributions, ReduceOp op,
                                       Match match = {}) const;
  void allreduce_of_several(std::span<const Buffer> contributions, ReduceOp op,
                            Match match = {}) const;

  // Brings slice r of the reduction to rank r, in place: data holds the slices of chunk(data.count,
  // p, r) one after another; after it only the own slice is defined. Ring, S·(p-1)/p sent.
  Operation start_reduce_scatter(Buffer data, ReduceOp op, Match match = {}) const;
  void reduce_scatter(Buffer data, ReduceOp op, Match match = {}) const;

  // Brings the slices of all ranks everywhere, in place: before it only slice r of `data` is
  // defined on rank r (same slices as reduce_scatter). Ring, S·(p-1)/p sent.
  Operation start_allgather(Buffer data, Match match = {}) const;
  void allgather(Buffer data, Match match = {}) const;

  // Rank r's part q of `send` goes to rank q, to part r of its `receive`. Part q of what rank r
  // receives must have as many elements as part r of what rank q sends (Failure otherwise). Parts
  // of `receive` overlap neither each other nor `send`. No limit of 2 GiB. Each part is sent once,
  // to up to 8 peers at a time.
  Operation start_alltoallv(ConstBuffer send, Parts send_parts, Buffer receive, Parts receive_parts,
                            Match match = {}) const;
  void alltoallv(ConstBuffer send, Parts send_parts, Buffer receive, Parts receive_parts,
                 Match match = {}) const;

  // Returns when every rank has called it.
  Operation start_barrier(Match match = {}) const;
  void barrier(Match match = {}) const;

  // Gathers a value of every rank, in the order of ranks: for what ranks tell each other in a step,
  // of some bytes. An allreduce of the values of all ranks.
  template <class T>
  std::vector<T> gather(const T& mine, Match match = {}) const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
    std::vector<T> all(static_cast<std::size_t>(size()));
    std::vector<std::byte> bytes(all.size() * sizeof(T));
    std::memcpy(bytes.data() + static_cast<std::size_t>(rank()) * sizeof(T), &mine, sizeof(T));
    allreduce(buffer_of(bytes), ReduceOp::sum, match);  // what others have there is 0
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }

  // Gathers every rank's text, in the order of ranks. For set-up and errors, not for hot paths.
  std::vector<std::string> gather_text(std::string_view text, Match match = {}) const;

  // Brings the root's text everywhere; what others give is ignored. For set-up and errors, as well.
  std::string broadcast_text(std::string_view text, int root, Match match = {}) const;

  // Advances whatever is in flight in this world, once; true if anything moved. A natural call for
  // code that computes long between operations (a bucket boundary, say).
  bool advance() const;

  // Counts the bytes and messages of this communicator's own transport so far.
  Traffic traffic() const;

 private:
  friend struct CommunicatorInternals;
  Medium medium() const;

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<const Locality> locality_;
  std::shared_ptr<const AllreduceSelection> selection_;  // null: the world's
  std::optional<bool> reproducible_;                     // nothing: as the world
};

// This is the part of `count` elements that belongs to `index` of `parts`: sizes differ by at most
// 1, the first ones are the larger.
struct Chunk {
  std::size_t begin = 0;
  std::size_t count = 0;
};
Chunk chunk(std::size_t count, int parts, int index);

}  // namespace convoy::comm
