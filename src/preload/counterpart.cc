#include "preload/counterpart.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>

#include "comm/internals.h"
#include "comm/transports/mpi.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "preload/library.h"

namespace convoy::preload {
namespace {

// A small call takes MPI about as long as so many more bytes in a large one.
constexpr std::size_t kPerCall = 4096;

// Ends the job, as the ranks of `comm` agree to, after one of them has said why.
[[noreturn]] void refuse(MPI_Comm comm, bool speaks, const std::string& why) {
  if (!speaks) PMPI_Barrier(comm);  // not to end it before that
  end_job(why, kExitUsage);
}

// While it lives, errors of a communicator don't reach the program's handler.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm) : comm_(comm) {
    PMPI_Comm_get_errhandler(comm_, &theirs_);
    PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~ErrorsReturned() {
    PMPI_Comm_set_errhandler(comm_, theirs_);
    PMPI_Errhandler_free(&theirs_);
  }
  ErrorsReturned(const ErrorsReturned&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler theirs_ = MPI_ERRHANDLER_NULL;
};

// Buffers such as these are mistakes, and MPI knows what to say about them.
bool is_odd(const Arguments& a) {
  return a.receive == nullptr || a.receive == MPI_IN_PLACE || a.send == nullptr ||
         a.send == a.receive;
}

// Whether MPI takes the buffers of a call all the same, as some do when one is given twice: then
// the other ranks, who don't know, are in a call that is as good as any. It is asked with a
// communicator where nobody waits.
bool is_taken_by_mpi(const Arguments& a) {
  // Of two threads one would keep the handler that the other has set for its question.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const ErrorsReturned quiet(MPI_COMM_SELF);
  return Library::get().allreduce(a.send, a.receive, a.count, a.type, a.op, MPI_COMM_SELF) ==
         MPI_SUCCESS;
}

}  // namespace

bool Setbacks::may_try() {
  const std::lock_guard lock(mutex_);
  if (left_out_ == 0) return true;
  --left_out_;
  return false;
}

void Setbacks::note(bool failed) {
  constexpr int kMost = 1024;
  const std::lock_guard lock(mutex_);
  next_ = failed ? std::min(2 * std::max(next_, 1), kMost) : 0;
  left_out_ = next_ / 2;
}

Counterpart::Counterpart(MPI_Comm comm, const Settings& settings, Setbacks& setbacks, bool able,
                         std::uint32_t number)
    : comm_(comm), settings_(settings), setbacks_(setbacks) {
  int rank = 0, process = 0;
  PMPI_Comm_rank(comm_, &rank);
  PMPI_Comm_rank(MPI_COMM_WORLD, &process);
  PMPI_Comm_size(comm_, &ranks_);
  // Signed numbers: MPICH 4.0 takes the least of unsigned ones as if they were.
  constexpr std::int64_t nobody = std::numeric_limits<std::int64_t>::max();
  // The least of a number and of its complement are complements only if all ranks have the same.
  const auto mine = static_cast<std::int64_t>(settings_.fingerprint());
  const Id id = static_cast<Id>(process) << 32 | number;
  std::array<std::int64_t, 5> least{mine, ~mine, able ? 1 : 0,
                                    settings_.mistake.empty() ? nobody : rank,
                                    rank == 0 ? id : nobody};
  const int error = Library::get().allreduce(MPI_IN_PLACE, least.data(), least.size(), MPI_INT64_T,
                                             MPI_MIN, comm_);
  if (error != MPI_SUCCESS) throw Failure("libconvoy_mpi.so: the ranks could not agree to use it");
  if (least[3] != nobody) refuse(comm_, least[3] == rank, settings_.mistake);
  if (least[0] != ~least[1]) {
    refuse(
        comm_, rank == 0,
        "CONVOY_ALLREDUCE, CONVOY_CHECK_CALLS or CONVOY_MPI_AFTER differs between ranks; on this "
        "one "
        "CONVOY_ALLREDUCE is '" +
            environment("CONVOY_ALLREDUCE") + "'");
  }
  able_ = least[2] != 0;
  id_ = least[4];
}

bool Counterpart::all_of_us(bool mine) const {
  int least = mine ? 1 : 0;
  const int error = Library::get().allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm_);
  return error == MPI_SUCCESS && least != 0;
}

void Counterpart::found() {
  able_ = all_of_us(setbacks_.may_try());
  if (!able_) return;
  std::unique_ptr<comm::Transport> transport;
  {
    const ErrorsReturned quiet(comm_);
    try {
      transport = comm::mpi_transport(comm_, comm::Notes::no);
    } catch (const Failure&) {
      // MPI is out of communicators, say: the program gets along with fewer.
    }
  }
  able_ = all_of_us(transport != nullptr);
  if (!able_) return;
  comm::Engine::Options options;
  options.check_calls = settings_.check_calls;
  options.guest = true;
  group_ = comm::create_group(std::move(transport), options);
  group_.engine->set_selection(settings_.selection);
  comm::CommunicatorInternals::locate(group_.communicator, group_.hosts);
  setbacks_.note(!comm::CommunicatorInternals::locality(group_.communicator).problem.empty());
}

Outcome Counterpart::allreduce(const Arguments& a) {
  if (!able_ || a.count < 0) return Outcome::left;
  const auto reduction = understand(a.type, a.op);
  if (!reduction) return Outcome::left;
  const comm::Buffer data(
      a.receive, static_cast<std::size_t>(a.count) * static_cast<std::size_t>(reduction->elements),
      reduction->type);
  if (data.count == 0 || !settings_.might_take(data.bytes(), ranks_)) return Outcome::left_by_rule;
  if (!group_.engine) {
    if (done_early_ < settings_.after) {
      done_early_ += data.bytes() + kPerCall;
      return Outcome::too_early;
    }
    found();
  }
  if (!able_) return Outcome::left;
  const comm::AllreduceChoice& choice =
      comm::CommunicatorInternals::choose(group_.communicator, data.bytes());
  if (choice.algorithm == comm::AllreduceAlgorithm::mpi) return Outcome::left_by_rule;
  if (is_odd(a) && !is_taken_by_mpi(a)) return Outcome::left;  // and the job ends, as in MPI
  if (a.send != MPI_IN_PLACE && a.send != a.receive) std::memcpy(a.receive, a.send, data.bytes());
  comm::CommunicatorInternals::allreduce(group_.communicator, data, reduction->op, choice);
  return Outcome::taken;
}

}  // namespace convoy::preload
