// The variables by which a process knows that it is a rank.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

// Removes from this process's environment what mpirun or srun has told it as a rank, so that it can
// start MPI jobs of its own: all variables of Open MPI, PMIx, PMI, PRRTE and MPICH's Hydra. Stays:
// that root may start jobs, and the names in `keep`.
void forget_rank(const std::vector<std::string>& keep);

// Removes what a Slurm step has told its task by PMIx or PMI; what users say to Open MPI and MPICH
// (OMPI_MCA_...) stays.
void forget_task();

}  // namespace convoy::cli
