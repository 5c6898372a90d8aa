#include "comm/transports/mpi.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <list>
#include <memory>
#include <optional>

#include "comm/engine/io.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

std::string describe(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(error, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

void check(int error, const char* what) {
  if (error != MPI_SUCCESS) throw Failure(std::string(what) + " failed: " + describe(error));
}

// PMPI throughout: a profiler between a program and MPI counts the program's own calls.

// A communicator of the same ranks. Unlike a duplicate it takes over no attributes, so that no code
// of the program's runs to copy them.
MPI_Comm same_ranks(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  MPI_Comm made = MPI_COMM_NULL;
  const int error = PMPI_Comm_create(comm, group, &made);
  PMPI_Group_free(&group);
  check(error, "MPI_Comm_create");
  return made;
}

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    case Type::i32:
      return MPI_INT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u8:
      return MPI_UINT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::sum:
      return MPI_SUM;
    default:
      return MPI_OP_NULL;
  }
}

constexpr int kLargestTag = (1 << Transport::kTagBits) - 1;

int tag_bound() {
  int* bound = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
  return found != 0 ? *bound : 0;
}

struct Request {
  MPI_Request mpi = MPI_REQUEST_NULL;
  int expected = -1;  // bytes of a receive; -1 for a send
};

class MpiTransport : public Transport {
 public:
  // Takes over `comm`, which must be a communicator of its own. Notes travel on a second one, if
  // there are any: only the transport of a whole world has them.
  MpiTransport(MPI_Comm comm, MPI_Comm notes, std::vector<int> world_ranks)
      : comm_(comm), notes_(notes), world_ranks_(std::move(world_ranks)) {
    PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    if (notes_ != MPI_COMM_NULL) PMPI_Comm_set_errhandler(notes_, MPI_ERRORS_RETURN);
    PMPI_Comm_rank(comm_, &rank_);
    PMPI_Comm_size(comm_, &size_);
  }

  ~MpiTransport() override {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (auto& note : outgoing_) PMPI_Request_free(&note.request);
    if (notes_ != MPI_COMM_NULL) PMPI_Comm_free(&notes_);
    PMPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool any_thread_may_call() const override {
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    return level >= MPI_THREAD_MULTIPLE;
  }
  int world_rank(int rank) const override { return world_ranks_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Transport> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(PMPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return nullptr;
    MPI_Group mine = MPI_GROUP_NULL, theirs = MPI_GROUP_NULL;
    PMPI_Comm_group(comm_, &mine);
    PMPI_Comm_group(part, &theirs);
    int size = 0;
    PMPI_Comm_size(part, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size)), here(ranks.size());
    for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
    PMPI_Group_translate_ranks(theirs, size, ranks.data(), mine, here.data());
    PMPI_Group_free(&mine);
    PMPI_Group_free(&theirs);
    for (int& rank : here) rank = world_rank(rank);
    return std::make_unique<MpiTransport>(part, MPI_COMM_NULL, std::move(here));
  }

  bool has_allreduce() const override { return true; }
  // Collectives and messages of one communicator don't meet.
  void allreduce(Buffer data, ReduceOp op) override { mpi_allreduce(comm_, data, op); }

  void post_note(int to, std::span<const std::byte> note) override {
    std::erase_if(outgoing_, [](Note& old) {
      int done = 0;
      PMPI_Test(&old.request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
    Note& kept = outgoing_.emplace_back();
    kept.bytes.assign(note.begin(), note.end());
    PMPI_Isend(kept.bytes.data(), static_cast<int>(kept.bytes.size()), MPI_BYTE, to, 0, notes_,
               &kept.request);
  }

  std::optional<std::pair<int, std::vector<std::byte>>> poll_note() override {
    int there = 0;
    MPI_Status status;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, notes_, &there, &status);
    if (there == 0) return std::nullopt;
    int length = 0;
    PMPI_Get_count(&status, MPI_BYTE, &length);
    std::vector<std::byte> note(static_cast<std::size_t>(length));
    PMPI_Recv(note.data(), length, MPI_BYTE, status.MPI_SOURCE, 0, notes_, MPI_STATUS_IGNORE);
    return std::pair(status.MPI_SOURCE, std::move(note));
  }

  void make_progress() override {
    // A probe that finds nothing makes a pass over all that is under way; one that does find
    // something may not. No message has this tag: its channel is above all others.
    int there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, kLargestTag, comm_, &there, MPI_STATUS_IGNORE);
  }

  void abort(const std::string& /*reason*/) noexcept override {
    std::fflush(nullptr);
    PMPI_Abort(MPI_COMM_WORLD, kExitFailure);
    std::_Exit(kExitFailure);  // if MPI let us live
  }

  bool abort_ends_process() const override { return true; }

 protected:
  void* start_send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    auto request = std::make_unique<Request>();
    check(PMPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to,
                     static_cast<int>(tag), comm_, &request->mpi),
          "MPI_Isend");
    return request.release();
  }

  void* start_receive(int from, std::uint32_t tag, std::span<std::byte> data) override {
    auto request = std::make_unique<Request>();
    request->expected = static_cast<int>(data.size());
    check(PMPI_Irecv(data.data(), request->expected, MPI_BYTE, from, static_cast<int>(tag), comm_,
                     &request->mpi),
          "MPI_Irecv");
    return request.release();
  }

  bool poll(void* opaque) override {
    auto* request = static_cast<Request*>(opaque);
    int done = 0;
    MPI_Status status;
    const int error = PMPI_Test(&request->mpi, &done, &status);
    if (error == MPI_SUCCESS && done == 0) return false;
    const std::unique_ptr<Request> owner(request);
    int error_class = MPI_SUCCESS;
    if (error != MPI_SUCCESS) PMPI_Error_class(error, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
      throw Failure("a message of more than the expected " + std::to_string(owner->expected) +
                    " bytes arrived");
    }
    check(error, "a message");
    if (owner->expected >= 0) {
      int length = 0;
      PMPI_Get_count(&status, MPI_BYTE, &length);
      if (length != owner->expected) {
        throw Failure("a message of " + std::to_string(length) + " bytes arrived where " +
                      std::to_string(owner->expected) + " were expected");
      }
    }
    return true;
  }

  void cancel(void* opaque) noexcept override {
    const std::unique_ptr<Request> request(static_cast<Request*>(opaque));
    if (request->expected >= 0) PMPI_Cancel(&request->mpi);
    // Cancelled or not, MPI is done with the buffer only when it says so.
    if (!patience_ends_) patience_ends_ = Clock::now() + kPatience;
    for (;;) {
      int done = 0;
      if (PMPI_Test(&request->mpi, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0) return;
      if (Clock::now() > *patience_ends_) break;
      sched_yield();
    }
    PMPI_Request_free(&request->mpi);
  }

 private:
  struct Note {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static constexpr auto kPatience = std::chrono::seconds(1);

  MPI_Comm comm_;
  MPI_Comm notes_;
  std::vector<int> world_ranks_;
  int rank_ = 0;
  int size_ = 1;
  std::list<Note> outgoing_;
  std::optional<Clock::time_point> patience_ends_;  // with messages that are cancelled
};

}  // namespace

void mpi_allreduce(MPI_Comm comm, Buffer data, ReduceOp op) {
  const MPI_Datatype type = mpi_type(data.type);
  const MPI_Op operation = mpi_op(op);
  if (type == MPI_DATATYPE_NULL || operation == MPI_OP_NULL)
    throw UsageError(std::string("MPI has no ") + name_of(op) + " of " + name_of(data.type));
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  std::size_t done = 0;
  do {
    const Buffer part = slice(data, done, std::min(kMost, data.count - done));
    check(PMPI_Allreduce(MPI_IN_PLACE, part.data, static_cast<int>(part.count), type, operation,
                         comm),
          "MPI_Allreduce");
    done += part.count;
  } while (done < data.count);
}

bool mpi_tags_suffice() { return tag_bound() >= kLargestTag; }

std::unique_ptr<Transport> mpi_transport(MPI_Comm comm, Notes kind) {
  if (!mpi_tags_suffice()) {
    throw UsageError("this MPI allows tags up to " + std::to_string(tag_bound()) +
                     "; Convoy needs " + std::to_string(kLargestTag) +
                     " (with UCX or libfabric, a provider with larger tags can be chosen)");
  }
  const MPI_Comm own = same_ranks(comm);
  const MPI_Comm notes = kind == Notes::yes ? same_ranks(comm) : MPI_COMM_NULL;
  int size = 0;
  PMPI_Comm_size(own, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return std::make_unique<MpiTransport>(own, notes, std::move(ranks));
}

}  // namespace convoy::comm
