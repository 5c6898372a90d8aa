#include "cli/job/outcome.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "cli/job/role.h"
#include "cli/job/role_process.h"

namespace convoy::cli {
namespace {

constexpr auto kExited = RoleEnd::Kind::exited;
constexpr auto kSignaled = RoleEnd::Kind::signaled;

RoleFate fate(const std::string& label, RoleEnd end, bool told = false) {
  RoleFate role;
  role.label = label;
  role.end = std::move(end);
  role.told = told;
  return role;
}

TEST(JobRestart, FollowsTheRule) {
  Restart rule;
  EXPECT_FALSE(pause_before_restart(rule, true, 0, 0));
  rule = {.when = Restart::When::on_failure, .times = 2, .delay_s = 1, .longest_delay_s = 5};
  EXPECT_FALSE(pause_before_restart(rule, false, 0, 0));
  EXPECT_EQ(pause_before_restart(rule, true, 0, 0), 1);
  EXPECT_EQ(pause_before_restart(rule, true, 1, 1), 2);
  EXPECT_FALSE(pause_before_restart(rule, true, 2, 2));
  EXPECT_EQ(pause_before_restart(rule, true, 1, 0), 1);  // the run before has lasted
  rule.when = Restart::When::always;
  EXPECT_EQ(pause_before_restart(rule, false, 1000, 2), 4);
  EXPECT_EQ(pause_before_restart(rule, false, 1000, 3), 5);
  EXPECT_EQ(pause_before_restart(rule, true, 1 << 30, 1 << 30), 5);
  rule.delay_s = 0;
  EXPECT_EQ(pause_before_restart(rule, true, 1 << 30, 1 << 30), 0);
}

TEST(JobOutcome, NamesTheFault) {
  JobFates end;
  end.roles = {fate("server", {kSignaled, SIGTERM, ""}, true), fate("worker-0", {}),
               fate("worker-1", {kExited, 3, ""})};
  end.roles[2].restarts = 1;
  end.roles[2].last_errors = {"one", "two"};
  end.fault = 2;
  const JobOutcome outcome = judge_job(end);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(
      outcome.lines,
      (std::vector<std::string>{
          "worker-1 exited with status 3 after 1 restart; 1 role was ended, 1 had ended before",
          "the last lines of worker-1 on standard error:", "  one", "  two"}));
}

TEST(JobOutcome, NamesWhatIsLeft) {
  JobFates end;
  end.roles = {fate("a", {}), fate("b", {RoleEnd::Kind::left, SIGKILL, ""}, true)};
  end.roles[1].essential = false;
  end.left = {"process 12 (sh)", "process 13"};
  EXPECT_EQ(judge_job(end).exit_status, 1);
  EXPECT_EQ(judge_job(end).lines,
            (std::vector<std::string>{
                "b could not be killed when it was told to stop; the job went on without it",
                "process 12 (sh) is left: it can't be killed",
                "process 13 is left: it can't be killed"}));
  // Nobody is to start it again beside them. Another status says more.
  end.interrupted_by = SIGTERM;
  EXPECT_EQ(judge_job(end).exit_status, 128 + SIGTERM);
  end.roles[0] = fate("a", {kExited, 75, ""}, true);
  EXPECT_EQ(judge_job(end).exit_status, 1);
  end.left.clear();
  EXPECT_EQ(judge_job(end).exit_status, 75);
}

// Numbers of processes come again; what waitpid() says of the next one is not this one's.
TEST(RoleProcess, EndsOnce) {
  Role role;
  role.argv = {"none"};
  RoleStart start;
  start.agent = "/bin/true";
  TerminalLine line;
  LineOutput out(STDOUT_FILENO, line), err(STDERR_FILENO, line);
  RoleProcess process(role, "a", start, {}, out, err);
  const pid_t pid = process.pid();
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_FALSE(process.reaped(pid + 1, SIGKILL));
  EXPECT_TRUE(process.reaped(pid, status));
  EXPECT_EQ(process.pid(), 0);
  EXPECT_FALSE(process.reaped(pid, SIGKILL));
  EXPECT_EQ(how(process.finish()), "lost its supervisor, which ended with status 0");
}

TEST(JobOutcome, PassesStatusesOn) {
  const auto status = [](const RoleEnd& role) {
    JobFates end;
    end.roles = {fate("a", role)};
    end.fault = 0;
    return judge_job(end).exit_status;
  };
  EXPECT_EQ(status({kExited, 2, ""}), 2);
  EXPECT_EQ(status({kExited, 3, ""}), 1);
  EXPECT_EQ(status({kExited, 75, ""}), 75);
  EXPECT_EQ(status({kSignaled, 2, ""}), 1);
  EXPECT_EQ(status({RoleEnd::Kind::cannot_start, 127, "no"}), 127);
  EXPECT_EQ(status({RoleEnd::Kind::lost, 1, ""}), 1);
}

TEST(JobOutcome, AsksToBeStartedAgainWhenARoleDoes) {
  JobFates end;
  end.interrupted_by = SIGTERM;
  end.roles = {fate("a", {kExited, 75, ""}, true), fate("b", {kSignaled, SIGTERM, ""}, true)};
  EXPECT_EQ(judge_job(end).exit_status, 75);
  end.roles[1].end = {kSignaled, SIGKILL, ""};
  EXPECT_EQ(judge_job(end).exit_status, 128 + SIGTERM);
  end.roles[1].essential = false;
  EXPECT_EQ(judge_job(end).exit_status, 75);
}

TEST(JobOutcome, IsDoneThoughASignalCameWhenAllWas) {
  JobFates end;
  end.interrupted_by = SIGINT;
  end.roles = {fate("worker", {}), fate("server", {kSignaled, SIGTERM, ""}, true)};
  end.roles[1].until_done = false;
  EXPECT_EQ(judge_job(end).exit_status, 0);
  // Also what was told to stop: one that has work left ends with another status.
  end.roles[0].told = true;
  EXPECT_EQ(judge_job(end).exit_status, 0);
  EXPECT_TRUE(judge_job(end).lines.empty());
  end.roles[0].end = {kExited, 128 + SIGTERM, ""};
  EXPECT_EQ(judge_job(end).exit_status, 128 + SIGINT);
  end.roles[0].end = {};
  end.roles.push_back(fate("another", {kExited, 1, ""}));
  EXPECT_EQ(judge_job(end).exit_status, 128 + SIGINT);
  end.roles.back() = fate("another", {});
  EXPECT_EQ(judge_job(end).exit_status, 0);
  end.roles.back().waited = true;  // its last end is none
  EXPECT_EQ(judge_job(end).exit_status, 128 + SIGINT);
}

TEST(JobOutcome, LooksAtServicesAfterTheEnd) {
  JobFates end;
  end.roles = {fate("worker", {}), fate("server", {kExited, 143, ""}, true)};
  end.roles[1].until_done = false;
  EXPECT_EQ(judge_job(end).exit_status, 0);
  EXPECT_TRUE(judge_job(end).lines.empty());
  end.roles[1].end = {kExited, 4, ""};
  EXPECT_EQ(judge_job(end).exit_status, 1);
  EXPECT_EQ(judge_job(end).lines,
            std::vector<std::string>{"server exited with status 4 when it was told to stop"});
  // One of which nothing is needed any more.
  end.roles[1].stops_anyhow = true;
  EXPECT_EQ(judge_job(end).exit_status, 0);
  EXPECT_EQ(judge_job(end).lines,
            std::vector<std::string>{
                "server exited with status 4 when it was told to stop, behind the end of the job"});
  // But not before that.
  end.roles[1].told = false;
  EXPECT_EQ(judge_job(end).exit_status, 1);
}

TEST(JobOutcome, NeedsOneThatHasDoneItsWork) {
  JobFates end;
  end.roles = {fate("a-0", {kExited, 1, ""}), fate("a-1", {})};
  for (RoleFate& role : end.roles) role.essential = false;
  EXPECT_EQ(judge_job(end).exit_status, 0);
  EXPECT_EQ(judge_job(end).lines.size(), 1u);
  end.roles[1].end = {kSignaled, SIGKILL, ""};
  EXPECT_EQ(judge_job(end).exit_status, 1);
}

}  // namespace
}  // namespace convoy::cli
