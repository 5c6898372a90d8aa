#include "cli/job/role.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "convoy/base/error.h"

namespace convoy::cli {

std::optional<double> pause_before_restart(const Restart& rule, bool failed, int restarts,
                                           int in_a_row) {
  if (rule.when == Restart::When::never) return std::nullopt;
  if (rule.when == Restart::When::on_failure && (!failed || restarts >= rule.times))
    return std::nullopt;
  constexpr int kMostDoublings = 60;
  return std::min(rule.longest_delay_s,
                  std::ldexp(rule.delay_s, std::clamp(in_a_row, 0, kMostDoublings)));
}

std::string label_of(const Role& role, std::span<const Role> roles) {
  const auto same =
      std::count_if(roles.begin(), roles.end(), [&](const Role& r) { return r.name == role.name; });
  return same > 1 ? role.name + "-" + std::to_string(role.index) : role.name;
}

void check_roles(std::span<const Role> roles) {
  if (roles.empty()) throw UsageError("a job needs at least one role");
  std::set<std::string> labels;
  for (const Role& role : roles) {
    const std::string label = label_of(role, roles);
    if (!labels.insert(label).second) throw UsageError("two roles of the job are called " + label);
    if (role.argv.empty() || role.argv.front().empty())
      throw UsageError("role " + label + " has no command");
  }
}

}  // namespace convoy::cli
