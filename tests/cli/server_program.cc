// cli_server_program COMMAND ...: what `convoy COMMAND ...` does, for those around the parameter
// server, see job.h. And cli_server_program supervise: what `convoy train` does when it has read a
// recipe with strategy "downpour".
#include <cstdio>
#include <exception>
#include <filesystem>

#include "cli/commands.h"
#include "cli/server/downpour_job.h"
#include "convoy/base/error.h"

namespace {

// Recipes here are a text, and a key is a letter.
std::vector<std::string> changes(const std::string& mine, const std::string& theirs) {
  return mine == theirs ? std::vector<std::string>{} : std::vector<std::string>{"seed"};
}

void add_supervise(CLI::App& app, convoy::cli::Outcome& outcome) {
  auto order = std::make_shared<convoy::cli::DownpourOrder>();
  order->name = "test";
  order->changes = changes;
  order->setup.servers = 2;
  order->recipe_words = {"my recipe.toml", "--set", "a=1"};
  CLI::App* command = app.add_subcommand("supervise");
  command->add_option("--program", order->setup.program);
  command->add_option("--data", order->data);
  command->add_option("--recipe", order->recipe);
  command->add_option("--resume", order->resume);
  command->add_option("--checkpoint", order->newest_checkpoint);
  command->add_option("--etcd", order->setup.etcd);
  command->add_option("--run", order->run_folder);
  command->add_option("--replicas", order->setup.replicas);
  command->add_option("--restarts", order->setup.restarts);
  command->add_option("--last-patience", order->setup.last_patience_s);
  command->add_flag("--overwrite", order->overwrite);
  command->add_flag("--dry-run", order->dry_run);
  command->callback([order, &outcome] {
    if (!order->run_folder.empty()) {
      order->run_files = [order] { return std::vector{order->run_folder + "/checkpoints/step-7"}; };
      order->lost_run = [order] {
        return std::filesystem::exists(order->run_folder + "/metrics.jsonl");
      };
    }
    outcome.exit_status = run_downpour_job(*order);
  });
}

}  // namespace

int main(int argc, char** argv) {
  using namespace convoy::cli;
  CLI::App app("", "convoy");
  Outcome outcome;
  app.require_subcommand(1);
  add_certs_command(app, outcome);
  add_status_command(app, outcome);
  add_supervise(app, outcome);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : convoy::kExitUsage;
  } catch (const std::exception& error) {
    const std::string name = app.get_subcommands().front()->get_name();
    std::fprintf(stderr, "convoy %s: %s\n", name.c_str(), error.what());
    return convoy::exit_status(error);
  }
  return outcome.exit_status;
}
