#include "cli/job/job_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/parse_toml.h"
#include "cli/launch/hosts.h"
#include "cli/launch/mpirun.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr int kMostRoles = 4096;

using Texts = std::vector<std::string>;

bool is_role_name(const std::string& name) {
  constexpr std::size_t kLongest = 64;
  const auto good = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= kLongest && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), good);
}

// Reads one table, key by key, and notes what is wrong.
class Table {
 public:
  Table(const toml::table& table, std::string title, const std::string& file, Texts& problems)
      : table_(table), title_(std::move(title)), file_(file), problems_(problems) {}

  bool has(const char* key) const { return table_.contains(key); }
  // Of texts, so that nothing has been said about it yet.
  bool is_list(const char* key) const {
    const toml::array* list = table_[key].as_array();
    return list != nullptr && std::all_of(list->begin(), list->end(), [](const toml::node& item) {
             return as_text(item).has_value();
           });
  }

  void problem(const char* key, const std::string& text) const {
    const toml::node* node = table_.get(key);
    const auto line = (node != nullptr ? node : &table_)->source().begin.line;
    const std::string what = *key == '\0' ? title_ : title_ + "." + key;
    problems_.push_back(file_ + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what + ": " +
                        text);
  }

  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  void text(const char* key, std::string& value) {
    if (const toml::node* node = take(key)) {
      if (const auto found = as_text(*node)) {
        value = *found;
      } else {
        problem(key, "has to be a text");
      }
    }
  }

  void flag(const char* key, bool& value) {
    if (const toml::node* node = take(key)) {
      if (const auto found = node->value_exact<bool>()) {
        value = *found;
      } else {
        problem(key, "has to be true or false");
      }
    }
  }

  void whole(const char* key, int& value, int least, int most) {
    if (const toml::node* node = take(key)) {
      const auto found = node->value_exact<std::int64_t>();
      if (found && *found >= least && *found <= most) {
        value = static_cast<int>(*found);
      } else {
        problem(key, "has to be a whole number from " + std::to_string(least) + " to " +
                         std::to_string(most));
      }
    }
  }

  void wholes(const char* key, std::vector<int>& values, int least, int most) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      const auto found = (*array)[i].value_exact<std::int64_t>();
      if (found && *found >= least && *found <= most) values.push_back(static_cast<int>(*found));
    }
    if (array == nullptr || values.size() != array->size())
      problem(key, "has to be a list of whole numbers from " + std::to_string(least) + " to " +
                       std::to_string(most));
  }

  void seconds(const char* key, double& value) {
    if (const toml::node* node = take(key)) {
      const auto found = node->is_number() ? node->value<double>() : std::nullopt;
      if (found && *found >= 0 && std::isfinite(*found)) {
        value = *found;
      } else {
        problem(key, "has to be a number of seconds, 0 or more");
      }
    }
  }

  void texts(const char* key, Texts& value) {
    if (const toml::node* node = take(key)) {
      const toml::array* array = node->as_array();
      Texts found;
      for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
        if (const auto item = as_text((*array)[i])) found.push_back(*item);
      }
      if (array == nullptr || found.size() != array->size()) {
        problem(key, std::string("has to be a list of texts") +
                         (node->is_string() ? R"(, as ["program", "argument"])" : ""));
      } else {
        value = std::move(found);
      }
    }
  }

  void environment(const char* key, Texts& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_table()) {
      problem(key, R"(has to be a table, as { NAME = "value" })");
      return;
    }
    for (const auto& [name_key, entry] : *node->as_table()) {
      const std::string name(name_key.str());
      const auto text = as_text(entry);
      if (name.empty() || name.find_first_of(std::string("=\0", 2)) != name.npos) {
        problem(key, "'" + name + "' is no name of a variable");
      } else if (!text) {
        problem(key, name + " has to be a text");
      } else {
        value.push_back(name + "=" + *text);
      }
    }
  }

  void report_unknown() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string near = nearest_name(name, known_);
      std::string text = "there is no such key";
      if (!near.empty()) {
        text += "; did you mean " + near + "?";
      } else {
        text += "; there are";
        for (const std::string& other : known_) text += (&other == &known_[0] ? " " : ", ") + other;
      }
      problem(name.c_str(), text);
    }
  }

 private:
  // No text that a program is started with can hold a zero byte.
  static std::optional<std::string> as_text(const toml::node& node) {
    auto text = node.value_exact<std::string>();
    return text && text->find('\0') == text->npos ? text : std::nullopt;
  }

  const toml::table& table_;
  const std::string title_;
  const std::string& file_;
  Texts& problems_;
  Texts known_;
};

void read_restart(Table& table, Role& role) {
  std::string when = "never";
  table.text("restart", when);
  Restart& rule = role.restart;
  table.whole("restarts", rule.times, 1, std::numeric_limits<int>::max());
  table.seconds("delay_s", rule.delay_s);
  rule.longest_delay_s = std::max(rule.longest_delay_s, rule.delay_s);
  table.seconds("longest_delay_s", rule.longest_delay_s);
  if (when == "on_failure") {
    rule.when = Restart::When::on_failure;
  } else if (when == "always") {
    rule.when = Restart::When::always;
  } else if (when != "never") {
    const std::string near = nearest_name(when, {"never", "on_failure", "always"});
    table.problem("restart", "'" + when + "': it can be never, on_failure or always" +
                                 (near.empty() ? "" : "; did you mean " + near + "?"));
    return;
  }
  if (rule.when != Restart::When::on_failure && table.has("restarts"))
    table.problem("restarts", "is for restart = \"on_failure\", not " + when);
  for (const char* key : {"delay_s", "longest_delay_s"}) {
    if (rule.when == Restart::When::never && table.has(key))
      table.problem(key, "means nothing without restart = \"on_failure\" or \"always\"");
  }
  if (rule.longest_delay_s < rule.delay_s) table.problem("longest_delay_s", "is less than delay_s");
  if (rule.when == Restart::When::always && role.until_done)
    table.problem("restart", "always, and the job would never be done: add until_done = false");
}

void read_essential(Table& table, Role& role) {
  const toml::node* node = table.take("essential");
  if (node == nullptr) return;
  const auto flag = node->value_exact<bool>();
  role.last_essential = node->value_exact<std::string>() == "last";
  role.essential = flag.value_or(!role.last_essential);
  if (!flag && !role.last_essential)
    table.problem("essential", R"(has to be true, false or "last")");
}

void check_command(const Table& table, const Role& role, bool elsewhere) {
  if (!table.has("command")) {
    table.problem("",
                  R"(command is missing; write for example command = ["./server", "--port=0"])");
    return;
  }
  if (role.argv.empty() || role.argv.front().empty()) {
    if (table.is_list("command"))
      table.problem("command", "is empty; it is a program and its arguments");
    return;
  }
  const bool own_path = std::any_of(role.env.begin(), role.env.end(),
                                    [](const std::string& v) { return v.starts_with("PATH="); });
  if (elsewhere || own_path) return;
  if (const std::string problem = problem_of_program(role.argv.front()); !problem.empty())
    table.problem("command", problem);
}

// The roles of one [[role]], without those that count says.
void read_role(Table& table, std::vector<Role>& roles) {
  Role role;
  int count = 1;
  Texts hosts;
  const std::size_t before = roles.size();
  table.text("name", role.name);
  if (!is_role_name(role.name)) {
    table.problem(table.has("name") ? "name" : "",
                  table.has("name")
                      ? "'" + role.name + "': letters, digits, - and _ make a name, at most 64"
                      : "name is missing");
  }
  table.whole("count", count, 0, kMostRoles);
  table.texts("command", role.argv);
  table.environment("env", role.env);
  table.texts("hosts", hosts);
  table.flag("until_done", role.until_done);
  read_essential(table, role);
  table.wholes("fatal", role.fatal, 1, 255);
  role.stop_order = role.until_done ? 0 : 1;
  table.whole("order", role.stop_order, -1000, 1000);
  read_restart(table, role);
  for (const std::string& host : hosts) {
    try {
      if (parse_hosts(host).size() != 1 || host.find(':') != host.npos) throw UsageError("");
    } catch (const UsageError&) {
      table.problem("hosts", "'" + host + R"(' is no host; write for example ["node1", "node2"])");
    }
  }
  check_command(table, role, std::any_of(hosts.begin(), hosts.end(), [](const std::string& host) {
                  return !is_this_host(host);
                }));
  table.report_unknown();
  for (int i = 0; i < count; ++i) {
    role.index = i;
    role.host = hosts.empty() ? "" : hosts[static_cast<std::size_t>(i) % hosts.size()];
    if (is_this_host(role.host)) role.host.clear();
    roles.push_back(role);
  }
  for (std::size_t i = 0; i < before; ++i) {
    if (roles[i].name != role.name || role.name.empty()) continue;
    table.problem("name", "'" + role.name + "' is the name of another role, too");
    break;
  }
}

void check_together(const JobFile& job, const std::string& file, Texts& problems) {
  if (job.roles.empty()) {
    problems.push_back(file + ": the job has no roles; a role begins with [[role]]");
    return;
  }
  if (job.roles.size() > kMostRoles)
    problems.push_back(file + ": a job may have " + std::to_string(kMostRoles) + " roles, not " +
                       std::to_string(job.roles.size()));
  std::set<std::string> labels;
  bool elsewhere = false;
  for (const Role& role : job.roles) {
    elsewhere = elsewhere || !role.host.empty();
    const std::string label = label_of(role, job.roles);
    if (!labels.insert(label).second && role.index == 0)
      problems.push_back(file + ": two roles would be called " + label);
  }
  if (elsewhere && job.options.folder.empty())
    problems.push_back(file +
                       ": job.folder is missing: roles on other hosts find the others by a folder "
                       "that all hosts see");
}

void read_job_table(const toml::table& root, JobFile& job, const std::string& file,
                    Texts& problems) {
  Table top(root, "", file, problems);
  if (const toml::node* node = root.get("job")) {
    if (!node->is_table()) {
      problems.push_back(file + ": job: has to be a table: [job]");
    } else {
      Table table(*node->as_table(), "job", file, problems);
      table.text("name", job.options.name);
      if (!is_role_name(job.options.name))
        table.problem("name", "letters, digits, - and _ make a name, at most 64");
      table.seconds("grace_s", job.options.grace_s);
      table.text("folder", job.options.folder);
      table.report_unknown();
    }
  }
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    if (name == "job" || name == "role") continue;
    const std::string near = nearest_name(name, {"job", "role"});
    problems.push_back(file + ":" + std::to_string(node.source().begin.line) + ": " + name +
                       ": there is no such key" +
                       (near == "role"  ? "; did you mean [[role]]?"
                        : near == "job" ? "; did you mean [job]?"
                                        : "; a job file has [job] and [[role]]"));
  }
}

}  // namespace

JobFile parse_job_file(const std::string& text, const std::string& name) {
  const std::string file = file_in_messages(name);
  const toml::table root = parse_toml(text, file);
  JobFile job;
  Texts problems;
  const std::string stem = std::filesystem::path(name).stem().string();
  if (is_role_name(stem)) job.options.name = stem;
  read_job_table(root, job, file, problems);
  if (const toml::node* node = root.get("role")) {
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
      problems.push_back(file + ":" + std::to_string(node->source().begin.line) +
                         ": role: has to be a list of tables; each begins with [[role]]");
      throw UsageError(problems.front());
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      const toml::table& entry = *(*array)[i].as_table();
      const std::string title = entry["name"].value_or(std::string());
      Table table(entry, is_role_name(title) ? title : "role[" + std::to_string(i) + "]", file,
                  problems);
      read_role(table, job.roles);
    }
  }
  if (problems.empty()) check_together(job, file, problems);
  if (problems.empty()) return job;
  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "\n") + problem;
  throw UsageError(message);
}

}  // namespace convoy::cli
