#include "cli/version.h"

#include <mpi.h>

#include <array>

#include "cli/launch/build_config.h"

namespace convoy::cli {
namespace {

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::string version_line() {
  return std::string("convoy ") + kVersion + " (LibTorch " + torch_version() + ", " +
         mpi_version() + ")";
}

std::string torch_version() { return CONVOY_TORCH_VERSION; }

std::string mpi_version() {
  const std::string text = library_version();
  // Open MPI: "Open MPI v4.1.4, package: ..."; MPICH: "MPICH Version:\t4.0.2\nMPICH Release
  // date...".
  if (text.rfind("Open MPI v", 0) == 0) return "Open MPI " + text.substr(10, text.find(',') - 10);
  std::string line = text.substr(0, text.find('\n'));
  const std::size_t label = line.find("Version:");
  if (label != std::string::npos) {
    line = line.substr(0, label) + line.substr(line.find_first_not_of(" \t", label + 8));
  }
  return line;
}

}  // namespace convoy::cli
