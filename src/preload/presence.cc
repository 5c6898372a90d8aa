#include "preload/presence.h"

#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "preload/job_keys.h"

namespace convoy::preload {
namespace {

constexpr const char* kKey = "convoy.mpi";

enum class Means { none, pmix, pmi1 };
// MPI_Init is called once, by one thread; PMIx_Commit within it.
std::atomic<bool> announcing = false;
std::atomic<Means> means = Means::none;

std::string key_of(int rank) { return kKey + ('.' + std::to_string(rank)); }

// Without patience only what is known at once.
bool has_it(int rank, bool patient = true) {
  return means == Means::pmix ? pmix::has(rank, kKey, patient) : pmi1::has(key_of(rank));
}

}  // namespace

void begin_to_announce() {
  announcing = true;
  if (!pmi1::available()) return;
  means = Means::pmi1;
  try {
    pmi1::put(key_of(std::atoi(environment("PMI_RANK").c_str())));
  } catch (const Failure&) {
    // Then it can't be found by anybody, this rank included.
  }
}

int announce_and_commit() {
  if (announcing) {
    means = Means::pmix;
    pmix::put(kKey);
  }
  return pmix::commit();
}

void end_announcing() { announcing = false; }

std::optional<Absence> find_absent() {
  if (means == Means::none) return std::nullopt;
  int rank = 0, ranks = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int absent = 0;
  while (absent < ranks && has_it(absent)) ++absent;
  if (absent == ranks) return std::nullopt;
  bool first = absent == 0 || rank == 0;
  for (int other = 1; absent == 0 && first && other < rank; ++other) first = !has_it(other, false);
  return Absence{absent, first};
}

}  // namespace convoy::preload
