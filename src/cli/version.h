// What this program is, and was built on. Torch-free.
#pragma once

#include <string>

namespace convoy::cli {

// "convoy 0.1.0 (LibTorch 2.11.0, Open MPI ...)".
std::string version_line();

// Gives the version of the LibTorch that it was built with.
std::string torch_version();
// Gives the MPI that it runs with, in a few words. May be called before MPI is started.
std::string mpi_version();

}  // namespace convoy::cli
