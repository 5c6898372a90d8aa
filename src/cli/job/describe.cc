// What a job file would start, for people.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "cli/job/job_file.h"

namespace convoy::cli {
namespace {

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-+=./,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
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

std::string describe(const JobFile& job) {
  const std::size_t count = job.roles.size();
  std::string text = "job " + job.options.name + ": " + std::to_string(count) +
                     (count == 1 ? " role" : " roles") + ", " + in_seconds(job.options.grace_s) +
                     " of grace when stopped\n";
  for (const Role& role : job.roles) {
    text += label_of(role, job.roles) + (role.host.empty() ? "" : " on " + role.host) + " (" +
            rule_of(role) + "):";
    for (const std::string& variable : role.env) text += " " + quoted(variable);
    for (const std::string& argument : role.argv) text += " " + quoted(argument);
    text += "\n";
  }
  return text;
}

}  // namespace convoy::cli
