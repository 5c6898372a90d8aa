#include "comm/engine/call.h"

#include <cstring>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"send",           "receive",   "broadcast", "allreduce",
                                   "reduce_scatter", "allgather", "alltoallv", "barrier",
                                   "gather_text",    "split",     "allocate",  "World"};
  return names[static_cast<std::size_t>(kind)];
}

void check_match(Match match) {
  if (match.channel >= Match::kChannels) {
    throw UsageError("channel " + std::to_string(match.channel) +
                     " is out of range: channels are 0 to " + std::to_string(Match::kChannels - 1));
  }
}

}  // namespace

std::string Call::text() const {
  std::string s = std::string(name_of(kind)) + "(";
  if (has_op != 0) s += std::string(comm::name_of(op)) + ", ";
  if (kind == Kind::allreduce && peer > 0) s += std::to_string(peer) + " contributions of ";
  if (kind == Kind::broadcast) s += "root " + std::to_string(peer) + ", ";
  if (kind == Kind::send) s += "to rank " + std::to_string(peer) + ", ";
  if (kind == Kind::receive) s += "from rank " + std::to_string(peer) + ", ";
  const bool empty = kind == Kind::barrier || kind >= Kind::split;
  if (!empty) s += std::to_string(count) + " x " + comm::name_of(type);
  if (match.channel >= Match::kChannels) return s + ")";
  return s + "), channel " + std::to_string(match.channel) + ", key " + std::to_string(match.key);
}

bool Call::agrees_with(const Call& other) const {
  if (kind != other.kind || type != other.type || has_op != other.has_op || op != other.op)
    return false;
  if (kind == Kind::alltoallv || kind >= Kind::gather_text) return true;  // counts differ by right
  return peer == other.peer && count == other.count;
}

Call make_own_call(Kind kind, ConstBuffer data, Match match) {
  Call call;
  call.kind = kind;
  call.type = data.type;
  call.count = data.count;
  call.match = match;
  return call;
}

Call make_call(Kind kind, ConstBuffer data, Match match, int peer) {
  check_match(match);
  Call call = make_own_call(kind, data, match);
  call.peer = peer;
  return call;
}

Call make_reduction(Kind kind, Buffer data, ReduceOp op, Match match) {
  Call call = make_call(kind, data, match);
  call.has_op = 1;
  call.op = op;
  if (op == ReduceOp::average && !is_floating(data.type)) {
    throw UsageError(std::string("an average of ") + name_of(data.type) +
                     " is not defined; use sum");
  }
  return call;
}

Task compare_calls(Io& io, Call mine) {
  const int size = io.size();
  const int next = (io.rank() + 1) % size;
  const int previous = (io.rank() + size - 1) % size;
  std::array<std::byte, sizeof(Call)> out, in_previous, in_next;
  std::memcpy(out.data(), &mine, sizeof mine);
  std::array<Ticket, 4> tickets;
  tickets[0] = io.receive(previous, in_previous, Io::kCheckLane);
  tickets[1] = io.send(next, out, Io::kCheckLane);
  std::size_t used = 2;
  if (size > 2) {  // with two ranks, previous and next are one and send one message
    tickets[2] = io.receive(next, in_next, Io::kCheckLane);
    tickets[3] = io.send(previous, out, Io::kCheckLane);
    used = 4;
  }
  co_await all(std::span(tickets).first(used));
  const auto check = [&](int peer, const std::array<std::byte, sizeof(Call)>& bytes) {
    Call theirs;
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    if (!mine.agrees_with(theirs)) {
      throw Failure("ranks disagree about a call: rank " + std::to_string(io.rank()) + " called " +
                    mine.text() + "; rank " + std::to_string(peer) + " called " + theirs.text());
    }
  };
  check(previous, in_previous);
  if (size > 2) check(next, in_next);
}

}  // namespace convoy::comm
