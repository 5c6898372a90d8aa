#include "preload/presence.h"

#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "preload/job_keys.h"

namespace convoy::preload {
namespace {

constexpr const char* kKey = "convoy.mpi";

enum class Means { none, pmix, pmi1 };
// MPI_Init is called once, by one thread; PMIx_Put and PMIx_Commit within it.
std::atomic<bool> announcing = false;
std::atomic<Means> means = Means::none;
std::atomic<bool> announced = false;  // so that everybody finds this rank
// What MPI has put until its first commit, with which Convoy's key goes. Other ranks put some of it
// as well: addresses, for one.
std::vector<std::string> keys_of_mpi;

// The same as another rank of that MPI would name them: MPICH has the rank at their end.
std::vector<std::string> keys_of(int rank) {
  std::vector<std::string> keys = keys_of_mpi;
  for (const std::string& key : keys_of_mpi) {
    const std::size_t digits = key.find_last_not_of("0123456789") + 1;
    if (digits > 0 && digits < key.size())
      keys.push_back(key.substr(0, digits) + std::to_string(rank));
  }
  return keys;
}

std::string key_of(int rank) { return kKey + ('.' + std::to_string(rank)); }

// Without patience only what is known at once.
bool has_it(int rank, bool patient = true) {
  return means == Means::pmix ? pmix::has(rank, kKey, keys_of(rank), patient)
                              : pmi1::has(key_of(rank));
}

}  // namespace

void begin_to_announce() {
  announcing = true;
  if (!pmi1::available()) return;
  means = Means::pmi1;
  try {
    pmi1::put(key_of(std::atoi(environment("PMI_RANK").c_str())));
    announced = true;
  } catch (const Failure&) {
    // Then it can't be found by anybody, this rank included.
  }
}

int note_and_put(std::uint8_t scope, const char* key, void* value) {
  // PMIx's own keys may be known of ranks that have put nothing yet.
  const bool own = key == nullptr || std::string_view(key).starts_with("pmix.");
  if (announcing && !announced && !own) keys_of_mpi.emplace_back(key);
  return pmix::put_for_mpi(scope, key, value);
}

int announce_and_commit() {
  if (!announcing || announced) return pmix::commit();
  means = Means::pmix;
  const bool put = pmix::put(kKey);
  const int status = pmix::commit();
  announced = put && status == pmix::kSuccess;
  return status;
}

void end_announcing() { announcing = false; }

std::optional<Absence> find_absent() {
  if (means == Means::none) return std::nullopt;
  int rank = 0, ranks = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) return std::nullopt;
  const auto is_there = [&](int other) { return other == rank ? announced.load() : has_it(other); };
  int absent = 0;
  while (absent < ranks && is_there(absent)) ++absent;
  if (absent == ranks) return std::nullopt;
  bool first = absent == 0 || rank == 0;
  for (int other = 1; absent == 0 && first && other < rank; ++other) first = !has_it(other, false);
  return Absence{absent, first};
}

}  // namespace convoy::preload
