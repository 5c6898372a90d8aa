// The keys that launchers keep for the processes of a job. A process puts its own while MPI is
// being initialized; afterwards everybody can ask for them, without the help of those that they are
// of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::preload {

// PMIx, of the library that MPI has loaded; pmix_keys.cc has what it needs of PMIx's types, so that
// no header of it is needed.
namespace pmix {
// Puts the key of this process. Whether PMIx lets it.
bool put(const std::string& key);
// The real functions; they give back its status, kSuccess among others.
int commit();
int put_for_mpi(std::uint8_t scope, const char* key, void* value);
constexpr int kSuccess = 0;
// Whether a rank of this job has put `key`. PMIx does not say that a rank has not: it waits for it
// to do so. But what a rank puts until it commits arrives at once, so one of whom a key of `others`
// is known has not. Without patience also where nothing is known of the rank yet. Throws Failure if
// nothing comes to be known: other ranks may know more.
bool has(int rank, const std::string& key, const std::vector<std::string>& others, bool patient);
}  // namespace pmix

// The wire protocol of PMI-1, lines of text on a descriptor, which MPICH speaks to its launcher
// Hydra. Nobody else may use the descriptor meanwhile.
namespace pmi1 {
bool available();
// Both throw Failure. Keys are the job's: a rank is a part of the key.
void put(const std::string& key);
bool has(const std::string& key);
}  // namespace pmi1

}  // namespace convoy::preload
