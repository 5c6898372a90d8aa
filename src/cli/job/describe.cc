// What a job file would start, for people.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "cli/job/job_file.h"

namespace convoy::cli {
namespace {

// What stands before the "=" is no word of its own: quoted with the rest it would be a command.
std::string assignment(const std::string& variable) {
  const std::size_t end = variable.find('=');
  if (end == std::string::npos) return shell_quoted(variable);
  const std::string value = variable.substr(end + 1);
  return variable.substr(0, end + 1) + (value.empty() ? "" : shell_quoted(value));
}

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

std::string rule_of(const Role& role) {
  const Restart& rule = role.restart;
  std::string text = role.until_done ? "until done" : "service";
  if (!role.essential)
    text += role.last_essential ? ", essential when it is the last" : ", not essential";
  const std::string pauses =
      " after " + in_seconds(rule.delay_s) + " to " + in_seconds(rule.longest_delay_s);
  if (rule.when == Restart::When::on_failure)
    text += (rule.times == Restart::kNoLimit
                 ? ", restarted after a failure"
                 : ", restarted up to " + std::to_string(rule.times) + " times") +
            pauses;
  if (rule.when == Restart::When::always) text += ", always restarted" + pauses;
  for (std::size_t i = 0; i < role.fatal.size(); ++i)
    text += (i == 0 ? ", not after status " : ", ") + std::to_string(role.fatal[i]);
  return text + ", stop order " + std::to_string(role.stop_order);
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-+=./,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string describe(const JobFile& job, const Terminal& terminal) {
  const std::size_t count = job.roles.size();
  std::string text = "# job " + job.options.name + ": " + std::to_string(count) +
                     (count == 1 ? " role" : " roles") + ", " + in_seconds(job.options.grace_s) +
                     " of grace when stopped\n";
  if (count > 1)
    text += "# To start it by hand: each line in a terminal of its own, in this order.\n";
  for (const Role& role : job.roles) {
    text += "# " + label_of(role, job.roles) + (role.host.empty() ? "" : " on " + role.host) +
            " (" + rule_of(role) + ")\n";
    text += "cd " + shell_quoted(terminal.folder) + " &&";
    if (terminal.tells_roles) {
      const auto alike = std::count_if(job.roles.begin(), job.roles.end(),
                                       [&](const Role& other) { return other.name == role.name; });
      text += " CONVOY_ROLE=" + shell_quoted(role.name) +
              " CONVOY_ROLE_INDEX=" + std::to_string(role.index) +
              " CONVOY_ROLE_COUNT=" + std::to_string(alike) + " CONVOY_ROLE_RESTARTS=0";
    }
    for (const std::string& variable : role.env) text += " " + assignment(variable);
    for (const std::string& argument : role.argv) text += " " + shell_quoted(argument);
    text += "\n";
  }
  return text;
}

}  // namespace convoy::cli
