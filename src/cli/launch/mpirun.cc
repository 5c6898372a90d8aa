#include "cli/launch/mpirun.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <utility>

#include "cli/launch/build_config.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

extern char** environ;

namespace convoy::cli {
namespace {

// How long Open MPI waits before and after SIGTERM when it ends a job itself. The supervisors end
// their programs on their own clock; this is the way out when one of them is gone.
constexpr const char* kOpenMpiPatience = "1";

bool is_executable_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string quote(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 512> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  pclose(pipe);
  return output;
}

std::string package_hint() {
  return std::string("install the package ") +
         (std::string(kBuildMpiFlavor) == "mpich" ? "mpich" : "openmpi-bin") +
         " (Debian, Ubuntu), load your cluster's MPI module, or name one with --mpirun PATH";
}

// What a rank on another host must see as well; Open MPI carries only what it is told to.
bool travels(const std::string& name) {
  constexpr std::array prefixes = {"CONVOY_", "OMP_", "MKL_", "KMP_", "GOMP_"};
  return name == "PATH" || name == "LD_LIBRARY_PATH" ||
         std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

std::vector<std::string> traveling_variables(std::vector<std::string> names) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (travels(name) && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace

std::string find_program(const std::string& command) {
  if (command.empty()) return "";
  if (command.find('/') != std::string::npos) return is_executable_file(command) ? command : "";
  const std::string path = environment("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = end == begin ? "." : path.substr(begin, end - begin);
    if (is_executable_file(folder + "/" + command)) return folder + "/" + command;
    begin = end + 1;
  }
  return "";
}

std::string problem_of_program(const std::string& command) {
  if (!find_program(command).empty()) return "";
  if (command.find('/') == std::string::npos) {
    const bool in_folder = std::filesystem::exists(command);
    return "there is no program '" + command + "' in PATH" +
           (in_folder ? "; for the one in this folder write ./" + command : "");
  }
  return "'" + command + "' " +
         (std::filesystem::is_directory(command) ? "is a folder, not a program"
          : std::filesystem::exists(command)     ? "may not be executed"
                                                 : "does not exist");
}

Mpirun find_mpirun(const std::string& given) {
  Mpirun mpirun;
  if (!given.empty()) {
    mpirun.path = find_program(given);
    if (mpirun.path.empty())
      throw UsageError("--mpirun " + given + ": there is no such program; " + package_hint());
  } else {
    for (const char* name : {kBuildMpirun, "mpirun", "mpiexec"}) {
      if (mpirun.path.empty()) mpirun.path = find_program(name);
    }
    if (mpirun.path.empty()) throw UsageError("mpirun was not found: " + package_hint());
  }
  const std::string text = output_of(quote(mpirun.path) + " --version 2>&1");
  std::smatch match;
  static const std::regex openmpi(R"((?:Open MPI|OpenRTE|PRRTE|prte)[^0-9]*(\d+)(\.\d+)*)");
  static const std::regex hydra(R"(HYDRA[^]*Version:\s*(\d+)(\.\d+)*)");
  if (std::regex_search(text, match, hydra)) {
    mpirun.flavor = MpiFlavor::mpich;
    mpirun.version = "MPICH " + match.str().substr(match.str().find_last_of(" \t") + 1);
  } else if (std::regex_search(text, match, openmpi)) {
    mpirun.version = "Open MPI " + match.str().substr(match.str().find_first_of("0123456789"));
  } else {
    throw UsageError(mpirun.path + " is neither Open MPI's nor MPICH's mpirun; " + package_hint());
  }
  mpirun.major = std::stoi(match[1]);
  return mpirun;
}

std::vector<std::string> mpirun_arguments(const Mpirun& mpirun, const MpirunJob& job) {
  std::vector<std::string> arguments{mpirun.path};
  const auto add = [&](std::initializer_list<std::string> more) {
    arguments.insert(arguments.end(), more);
  };
  if (mpirun.flavor == MpiFlavor::openmpi) {
    // The supervisors bind their ranks; mpirun's own binding would give each one core.
    add({"--bind-to", "none"});
    if (mpirun.major >= 5) {
      add({"--map-by", ":OVERSUBSCRIBE"});
    } else {
      add({"--oversubscribe", "--mca", "odls_base_sigkill_timeout", kOpenMpiPatience});
    }
    if (!job.hosts.empty()) {
      add({"--host", format_hosts(job.hosts)});
      for (const std::string& name : traveling_variables(job.variables)) add({"-x", name});
    }
  } else {
    add({"-bind-to", "none"});
    if (!job.hosts.empty()) add({"-hosts", format_hosts(job.hosts)});
  }
  add({"-n", std::to_string(job.ranks)});
  arguments.insert(arguments.end(), job.extra_arguments.begin(), job.extra_arguments.end());
  arguments.insert(arguments.end(), job.command.begin(), job.command.end());
  return arguments;
}

std::vector<std::string> mpirun_environment(const Mpirun& mpirun, bool root,
                                            const std::string& folder) {
  std::vector<std::string> variables;
  const auto add = [&](const char* name, const std::string& value = "1") {
    if (std::getenv(name) == nullptr) variables.push_back(name + ("=" + value));
  };
  if (mpirun.flavor == MpiFlavor::openmpi) {
    if (root) {
      for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                               "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
        add(name);
      }
    }
    // A rank that waits inside MPI leaves its core to a rank that computes.
    add("OMPI_MCA_mpi_yield_when_idle");
    if (!folder.empty()) {
      add("OMPI_MCA_orte_tmpdir_base", folder);
      add("PRTE_MCA_prte_tmpdir_base", folder);
    }
  }
  return variables;
}

}  // namespace convoy::cli
