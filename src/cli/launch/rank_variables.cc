#include "cli/launch/rank_variables.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

extern char** environ;

namespace convoy::cli {
namespace {

constexpr std::array<std::string_view, 10> kOfLaunchers = {
    "OMPI_", "OPAL_",  "ORTE_",     "PMIX_", "PMI_",
    "PRTE_", "HYDRA_", "MPI_LOCAL", "HYDI_", "MPIR_CVAR_"};

bool starts_with_any(std::string_view name) {
  return std::any_of(kOfLaunchers.begin(), kOfLaunchers.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

template <class Goes>
void forget_variables(const Goes& goes) {
  std::vector<std::string> gone;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (goes(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) unsetenv(name.c_str());
}

}  // namespace

void forget_rank(const std::vector<std::string>& keep) {
  forget_variables([&keep](const std::string& name) {
    return starts_with_any(name) && name.find("ALLOW_RUN_AS_ROOT") == name.npos &&
           std::find(keep.begin(), keep.end(), name) == keep.end();
  });
}

void forget_task() {
  forget_variables([](const std::string& name) {
    return name.starts_with("PMIX_") || name.starts_with("PMI_");
  });
}

}  // namespace convoy::cli
