#include "preload/library.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "convoy/base/system.h"

namespace convoy::preload {
namespace {

// The next definition behind this library's own. Other tools that are preloaded behind this one and
// know the profiling interface define the plain names, so theirs are passed by; whoever comes in
// front of this library gets Convoy when it calls the PMPI name.
template <class F>
F next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "convoy: libconvoy_mpi.so finds no %s behind it: %s\n", name, dlerror());
    std::abort();
  }
  return reinterpret_cast<F>(found);
}

// The rank as launchers tell it, for lines that one rank should say while MPI can't be asked.
bool is_first_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const std::string rank = environment(name); !rank.empty()) return rank == "0";
  }
  return true;
}

}  // namespace

const Library& Library::get() {
  static const Library library{
      next<decltype(Library::allreduce)>("PMPI_Allreduce"),
      next<decltype(Library::init)>("PMPI_Init"),
      next<decltype(Library::init_thread)>("PMPI_Init_thread"),
      next<decltype(Library::comm_free)>("PMPI_Comm_free"),
      next<decltype(Library::comm_disconnect)>("PMPI_Comm_disconnect"),
      next<decltype(Library::finalize)>("PMPI_Finalize"),
  };
  return library;
}

bool is_our_kind_of_mpi() {
  // MPICH's may be the longest. Both take the same arguments, so this call is safe with either.
  std::array<char, 16384> version{};
  int length = 0;
  PMPI_Get_library_version(version.data(), &length);
  const bool open_mpi = std::string(version.data()).find("Open MPI") != std::string::npos;
#ifdef OPEN_MPI
  constexpr bool wanted = true;
#else
  constexpr bool wanted = false;
#endif
  if (open_mpi == wanted) return true;
  if (is_first_rank()) {
    std::fprintf(stderr,
                 "convoy: libconvoy_mpi.so was built for %s, this program uses another MPI: all "
                 "its calls are left alone\n",
                 wanted ? "Open MPI" : "MPICH");
  }
  return false;
}

bool may_use_device_memory() {
  if (environment("CONVOY_MPI_HOST_MEMORY", "0") != "0") return false;
  // Extensions of newer versions: the first of both, the next two of MPICH, the last of Open MPI.
  // Some say -1 where they don't know.
  for (const char* name : {"MPIX_Query_cuda_support", "MPIX_Query_hip_support",
                           "MPIX_Query_ze_support", "MPIX_Query_rocm_support"}) {
    const auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    if (query != nullptr && query() != 0) return true;
  }
  return false;
}

void end_job(const std::string& reason, int status) {
  if (!reason.empty()) std::fprintf(stderr, "convoy: libconvoy_mpi.so: %s\n", reason.c_str());
  std::fflush(nullptr);
  // MPICH's launcher drops what it has not yet read when a rank ends the job.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  PMPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);  // if MPI let us live
}

}  // namespace convoy::preload
