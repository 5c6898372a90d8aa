#include "cli/suggest.h"

#include <algorithm>
#include <cctype>

#include "convoy/base/names.h"

namespace convoy::cli {
namespace {

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

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::vector<std::string> names_on_path(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    names.push_back(app->get_name());
  }
  return names;
}

// The first argument that looks like an option and is none of the command or those above it.
std::string first_unknown_option(const CLI::App& command,
                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const std::string& name : option_names(*app)) known.push_back(name);
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    const bool option = name.size() > 1 && name.front() == '-' &&
                        std::isdigit(static_cast<unsigned char>(name[1])) == 0;
    if (option && std::find(known.begin(), known.end(), name) == known.end()) return name;
  }
  return "";
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> next = app.get_subcommands();
  return next.empty() ? app : chosen(*next.front());
}

std::string full_name(const CLI::App& app) {
  const std::string parent = app.get_parent() != nullptr ? full_name(*app.get_parent()) + " " : "";
  return parent + app.get_name();
}

std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  const bool option = argument.rfind('-', 0) == 0;
  const std::string name = option ? argument.substr(0, argument.find('=')) : argument;
  const std::vector<std::string> known = option ? option_names(app) : command_names(app);
  const std::string near = nearest_name(name, known);
  std::string text = full_name(app) + ": ";
  if (!option && known.empty()) return text + "'" + argument + "' was not expected";
  text += option ? "there is no option " + name : "there is no command '" + name + "'";
  if (!near.empty()) return text + "; did you mean " + near + "?";
  return text + (option ? "; '" + full_name(app) : "; there are: " + list(known)) +
         (option ? " --help' lists them" : "");
}

std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  const CLI::App& command = chosen(app);
  const std::vector<std::string> commands = command_names(command);
  const auto is = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);  // get_name() may be the command's
  };
  const bool extra = is(CLI::ExitCodes::ExtrasError);
  // A mistyped command or option is reported as a missing one, too.
  if (extra || is(CLI::ExitCodes::RequiredError)) {
    if (const std::string option = first_unknown_option(command, arguments); !option.empty()) {
      return unknown_argument(command, option);
    }
    const std::vector<std::string> path = names_on_path(command);
    for (const std::string& argument : arguments) {
      const bool on_path = std::find(path.begin(), path.end(), argument) != path.end();
      const bool candidate = !on_path && argument.rfind('-', 0) != 0;
      if (candidate && !commands.empty()) return unknown_argument(command, argument);
    }
    if (!extra && !commands.empty()) {
      return full_name(command) + ": a command is missing; there are: " + list(commands);
    }
  }
  std::string text = one_line(error.what());
  // Of what has no name to write, the messages have the one that --help shows in capitals.
  if (is(CLI::ExitCodes::RequiredError) && !text.empty() && text.front() != '-') {
    for (char& c : text) {
      if (c == ' ') break;
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    text += "; '" + full_name(command) + " --help' says what it is";
  }
  return full_name(command) + ": " + text;
}

}  // namespace convoy::cli
