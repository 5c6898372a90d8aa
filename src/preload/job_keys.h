// The keys that launchers keep for the processes of a job. A process puts its own while MPI is
// being initialized; afterwards everybody can ask for them, without the help of those that they are
// of.
#pragma once

#include <string>

namespace convoy::preload {

// PMIx, of the library that MPI has loaded; pmix_keys.cc has what it needs of PMIx's types, so that
// no header of it is needed.
namespace pmix {
// Puts the key of this process, if PMIx lets it.
void put(const std::string& key);
// The real PMIx_Commit; gives back its status.
int commit();
// Whether a rank of this job has put it. With patience, also if the launcher has to ask on the
// rank's host, which takes seconds if it has not. Throws Failure.
bool has(int rank, const std::string& key, bool patient);
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
