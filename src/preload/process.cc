#include "preload/process.h"

#include <cstdio>
#include <memory>

#include "comm/transports/mpi.h"
#include "convoy/base/units.h"
#include "preload/library.h"

namespace convoy::preload {
namespace {

// Where its ranks may be of other jobs, which this library knows nothing of: all ranks see it.
bool within_world(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL, both = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_intersection(group, world, &both);
  int ranks = 0, ranks_of_world = 0;
  PMPI_Group_size(group, &ranks);
  PMPI_Group_size(both, &ranks_of_world);
  for (MPI_Group* made : {&group, &world, &both}) {
    if (*made != MPI_GROUP_EMPTY) PMPI_Group_free(made);
  }
  return ranks == ranks_of_world;
}

std::string find_obstacle(const std::optional<Absence>& absence) {
  if (absence) return "rank " + std::to_string(absence->rank) + " runs without libconvoy_mpi.so";
  if (!comm::mpi_tags_suffice()) return "the tags of this MPI are too small";
  if (may_use_device_memory())
    return "this MPI takes buffers in the memory of GPUs; CONVOY_MPI_HOST_MEMORY=1 says that the "
           "program has none";
  return "";
}

}  // namespace

bool BeingFreed::has(MPI_Comm comm) {
  for (const BeingFreed* one = innermost_; one != nullptr; one = one->outer_) {
    if (one->comm_ == comm) return true;
  }
  return false;
}

void Process::begin() {
  const Process& self = instance();
  if (self.absence_ && self.absence_->is_ours_to_say) {
    std::fprintf(stderr, "convoy: libconvoy_mpi.so: %s: all calls of this job are left to MPI\n",
                 self.obstacle_.c_str());
  }
  state_ = State::working;
}

// Never destroyed: the program may call MPI until its very end.
Process& Process::instance() {
  static Process* const process = new Process;
  return *process;
}

Process::Process()
    : settings_(Settings::from_environment()),
      absence_(find_absent()),
      obstacle_(find_obstacle(absence_)) {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &forget, &keyval_, this);
}

Counterpart* Process::counterpart(MPI_Comm comm) {
  if (absence_ || BeingFreed::has(comm)) return nullptr;
  void* found = nullptr;
  int is_there = 0;
  PMPI_Comm_get_attr(comm, keyval_, &found, &is_there);
  if (is_there != 0) return static_cast<Counterpart*>(found);
  int between_groups = 0;
  PMPI_Comm_test_inter(comm, &between_groups);
  if (between_groups != 0) return nullptr;
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  if (ranks == 1 || !within_world(comm)) return nullptr;
  auto made =
      std::make_unique<Counterpart>(comm, settings_, setbacks_, obstacle_.empty(), counterparts_++);
  {
    const std::lock_guard lock(mutex_);
    communicators_.emplace(made->id(), comm);
  }
  PMPI_Comm_set_attr(comm, keyval_, made.get());
  return made.release();
}

int Process::forget(MPI_Comm /*comm*/, int /*keyval*/, void* attribute, void* process) {
  auto* self = static_cast<Process*>(process);
  const std::unique_ptr<Counterpart> counterpart(static_cast<Counterpart*>(attribute));
  const std::lock_guard lock(self->mutex_);
  self->communicators_.erase(counterpart->id());
  return MPI_SUCCESS;
}

void Process::close() {
  if (state_.exchange(State::off) != State::working) return;
  Process& self = instance();
  // MPI frees the communicators that are left too late for Convoy's own to be freed with them.
  while (!self.communicators_.empty()) {
    const MPI_Comm comm = self.communicators_.begin()->second;
    self.communicators_.erase(self.communicators_.begin());
    PMPI_Comm_delete_attr(comm, self.keyval_);
  }
  PMPI_Comm_free_keyval(&self.keyval_);
  if (self.settings_.verbose) self.report();
}

void Process::count(Outcome outcome, const Arguments& arguments) {
  switch (outcome) {
    case Outcome::taken: {
      int bytes = 0;
      PMPI_Type_size(arguments.type, &bytes);
      ++taken_;
      taken_bytes_ +=
          static_cast<std::uint64_t>(bytes) * static_cast<std::uint64_t>(arguments.count);
      return;
    }
    case Outcome::left_by_rule:
      ++left_by_rule_;
      return;
    case Outcome::too_early:
      ++too_early_;
      return;
    case Outcome::left:
      ++left_;
      return;
  }
}

void Process::report() const {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  const std::uint64_t taken = taken_, by_rule = left_by_rule_, early = too_early_, others = left_;
  std::fprintf(stderr,
               "convoy: libconvoy_mpi.so on rank 0: of %llu calls of MPI_Allreduce %llu taken over "
               "(%s); left to MPI: %llu by the rules, %llu too early, %llu others%s%s\n",
               static_cast<unsigned long long>(taken + by_rule + early + others),
               static_cast<unsigned long long>(taken), format_bytes(taken_bytes_).c_str(),
               static_cast<unsigned long long>(by_rule), static_cast<unsigned long long>(early),
               static_cast<unsigned long long>(others), obstacle_.empty() ? "" : ", because ",
               obstacle_.c_str());
}

}  // namespace convoy::preload
