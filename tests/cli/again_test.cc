#include "cli/launch/again.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "cli/launch/rank_variables.h"

namespace convoy::cli {
namespace {

constexpr const char* kOfARank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",   "PMI_RANK", "PMI_SIZE",
                                    "SLURM_STEP_NUM_TASKS", "OMPI_MCA_own"};

// A process with these of them alone. This one keeps what it had.
template <class F>
auto with_rank_variables(const std::map<std::string, std::string>& variables, F&& ask) {
  std::map<std::string, std::string> before;
  for (const char* name : kOfARank) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const auto answer = ask();
  for (const char* name : kOfARank) unsetenv(name);
  for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
  return answer;
}

TEST(Again, TheShellOfAnInteractiveStepMayStartRanks) {
  const auto is_lone = [](const std::map<std::string, std::string>& variables) {
    return with_rank_variables(variables, [] { return is_a_lone_task(); });
  };
  EXPECT_FALSE(is_lone({}));
  EXPECT_TRUE(is_lone({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_TRUE(is_lone({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  // Ranks: of srun, and of an mpirun that such a shell has started.
  EXPECT_FALSE(is_lone({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}));
  EXPECT_FALSE(is_lone({{"PMIX_RANK", "0"}}));
  EXPECT_FALSE(
      is_lone({{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(is_lone({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(with_rank_variables(
      {{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_MCA_own", "2"}}, [] {
        forget_task();
        return is_a_rank() || std::getenv("OMPI_MCA_own") == nullptr;
      }));
}

}  // namespace
}  // namespace convoy::cli
