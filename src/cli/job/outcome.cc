#include "cli/job/outcome.h"

#include <algorithm>
#include <csignal>

#include "cli/launch/report.h"
#include "cli/launch/verdict.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr int kSignalBase = 128;  // of a shell's exit status

bool requeues(const RoleEnd& end) {
  return end.kind == RoleEnd::Kind::exited && end.code == kExitRequeue;
}

std::string roles(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " role" : " roles");
}

std::string who(const RoleFate& role) {
  return role.label + (role.host.empty() ? "" : " on host " + role.host);
}

std::string after_restarts(const RoleFate& role) {
  if (role.restarts == 0) return "";
  return " after " + std::to_string(role.restarts) +
         (role.restarts == 1 ? " restart" : " restarts");
}

// "; the other 3 roles were ended"
std::string others(const JobFates& end) {
  const auto ended = static_cast<std::size_t>(
      std::count_if(end.roles.begin(), end.roles.end(),
                    [](const RoleFate& role) { return role.told || !role.started; }));
  const std::size_t rest = end.roles.size() - 1;
  if (rest == 0) return "";
  if (ended == 0)
    return rest == 1 ? "; the other role had ended" : "; the other " + roles(rest) + " had ended";
  if (ended == rest)
    return rest == 1 ? "; the other role was ended" : "; the other " + roles(rest) + " were ended";
  return "; " + roles(ended) + (ended == 1 ? " was" : " were") + " ended, " +
         std::to_string(rest - ended) + " had ended before";
}

void add_last_errors(const RoleFate& role, std::vector<std::string>& lines) {
  if (role.last_errors.empty()) return;
  lines.push_back("the last lines of " + role.label + " on standard error:");
  for (const std::string& line : role.last_errors) lines.push_back("  " + line);
}

int status_of(const RoleEnd& end) {
  if (end.kind == RoleEnd::Kind::cannot_start) return end.code;
  if (end.kind == RoleEnd::Kind::exited && (end.code == kExitUsage || end.code == kExitRequeue))
    return end.code;
  return kExitFailure;
}

JobOutcome of_fault(const JobFates& end) {
  const RoleFate& role = end.roles[static_cast<std::size_t>(end.fault)];
  JobOutcome result;
  result.exit_status = status_of(role.end);
  result.lines.push_back(who(role) + " " + how(role.end) + after_restarts(role) + others(end));
  add_last_errors(role, result.lines);
  return result;
}

JobOutcome of_interruption(const JobFates& end) {
  const auto any = [&](auto&& is) { return std::any_of(end.roles.begin(), end.roles.end(), is); };
  const bool requeue = any([](const RoleFate& r) { return r.started && requeues(r.end); });
  // Of these what was saved by those who ask makes up for the end.
  const bool bad = any([](const RoleFate& r) {
    return r.started && r.essential && !r.stops_anyhow && !r.end.well_stopped();
  });
  if (requeue && !bad) return {kExitRequeue, {"roles ask to be started again (status 75)"}};
  const std::string all = end.roles.size() == 1
                              ? "; its role was ended"
                              : "; the " + roles(end.roles.size()) + " were ended";
  return {kSignalBase + end.interrupted_by,
          {"ended by " + describe_signal(end.interrupted_by) + all}};
}

// Whether all work had come to its end, before a signal or in spite of it. A role that is told to
// stop and has work left says so by another status than 0: 75, or the signal's.
bool is_done(const JobFates& end) {
  bool any = false;
  for (const RoleFate& role : end.roles) {
    if (!role.until_done) continue;
    any = true;
    if (!role.started || role.waited || role.end.failed()) return false;
  }
  return any;
}

JobOutcome of_roles(const JobFates& end) {
  if (end.fault >= 0) return of_fault(end);
  if (end.interrupted_by != 0 && !is_done(end)) return of_interruption(end);
  JobOutcome result;
  bool any_done = false;
  bool any_until_done = false;
  for (const RoleFate& role : end.roles) {
    any_until_done = any_until_done || role.until_done;
    any_done = any_done || (role.until_done && !role.end.failed());
    const bool well = !role.started || (role.told ? role.end.well_stopped() : !role.end.failed());
    if (well) continue;
    const bool matters =
        role.essential && !((role.told || role.behind_the_end) && role.stops_anyhow);
    if (matters) result.exit_status = kExitFailure;
    result.lines.push_back(who(role) + " " + how(role.end) + after_restarts(role) +
                           (role.told ? " when it was told to stop" : "") +
                           (!role.essential ? "; the job went on without it"
                            : matters       ? ""
                                            : ", behind the end of the job"));
    add_last_errors(role, result.lines);
  }
  if (any_until_done && !any_done) {
    result.exit_status = kExitFailure;
    result.lines.push_back("no role came to its end with status 0");
  }
  return result;
}

}  // namespace

bool RoleEnd::well_stopped() const {
  if (kind == Kind::signaled) return code == SIGTERM;
  return kind == Kind::exited &&
         (code == 0 || code == kExitRequeue || code == kSignalBase + SIGTERM);
}

bool is_fatal(const Role& role, const RoleEnd& end) {
  return end.kind == RoleEnd::Kind::exited &&
         std::find(role.fatal.begin(), role.fatal.end(), end.code) != role.fatal.end();
}

std::string how(const RoleEnd& end) {
  switch (end.kind) {
    case RoleEnd::Kind::exited:
      return how(false, end.code);
    case RoleEnd::Kind::signaled:
      return how(true, end.code);
    case RoleEnd::Kind::cannot_start:
      return "could not be started: " + end.text;
    case RoleEnd::Kind::lost:
      return "lost its supervisor" + (end.text.empty() ? "" : ", " + end.text);
    case RoleEnd::Kind::left:
      return "could not be killed";
  }
  return "";
}

JobOutcome judge_job(const JobFates& end) {
  JobOutcome result = of_roles(end);
  for (const std::string& process : end.left) {
    result.lines.push_back(process + " is left: it can't be killed");
    // Whoever starts the job again would do so beside it.
    if (result.exit_status == 0 || result.exit_status == kExitRequeue)
      result.exit_status = kExitFailure;
  }
  return result;
}

}  // namespace convoy::cli
