#include "cli/suggest.h"

#include <algorithm>
#include <numeric>

namespace convoy::cli {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string full_name(const CLI::App& app) {
  const std::string parent = app.get_parent() != nullptr ? full_name(*app.get_parent()) + " " : "";
  return parent + app.get_name();
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// "The following argument was not expected: --jsn" -> "--jsn"
std::string text_after_colon(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? ""
                                    : text.substr(colon + 2, text.find(' ', colon + 2) - colon - 2);
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> next = app.get_subcommands();
  return next.empty() ? app : chosen(*next.front());
}

std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  const bool option = argument.rfind('-', 0) == 0;
  const std::string name = option ? argument.substr(0, argument.find('=')) : argument;
  const std::vector<std::string> known = option ? option_names(app) : command_names(app);
  const std::string near = nearest(name, known);
  std::string text = full_name(app) + ": ";
  if (!option && known.empty()) return text + "'" + argument + "' was not expected";
  text += option ? "there is no option " + name : "there is no command '" + name + "'";
  if (!near.empty()) return text + "; did you mean " + near + "?";
  return text + (option ? "; 'convoy " : "; there are: " + list(known)) +
         (option ? app.get_name() + " --help' lists them" : "");
}

std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  const CLI::App& command = chosen(app);
  if (error.get_name() == "ExtrasError") {
    std::vector<std::string> rest = app.remaining(true);
    if (rest.empty()) rest = command.remaining();
    if (rest.empty()) rest = {text_after_colon(error.what())};
    if (!rest.front().empty()) return unknown_argument(command, rest.front());
  }
  if (error.get_name() == "RequiredError") {
    const std::vector<std::string> known = command_names(command);
    // A mistyped command is reported as a missing one.
    for (const std::string& argument : arguments) {
      const bool path = std::find(known.begin(), known.end(), argument) != known.end();
      if (!known.empty() && !path && argument.rfind('-', 0) != 0 &&
          argument != command.get_name()) {
        return unknown_argument(command, argument);
      }
    }
    if (!known.empty())
      return full_name(command) + ": a command is missing; there are: " + list(known);
  }
  return full_name(command) + ": " + one_line(error.what());
}

}  // namespace convoy::cli
