// convoy plan placement: where the layers of a network should be.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/bench/placement_fields.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/output_file.h"
#include "cli/plan/network.h"
#include "cli/plan/numbers.h"
#include "cli/plan/placement_problem.h"
#include "cli/plan/subcommands.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/model/factory.h"
#include "convoy/train/planning.h"
#include "convoy/train/task.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlacementArguments {
  PlacementWords words;
  int world = 0;
  RankOptions ranks;  // that measure
  std::string machine, write_machine;
  std::string bandwidth, latency;
  double processor_share = 0;
  bool variable_batch = false;
  std::string memory;
  int repetitions = 2;
  std::string json;
};

// What is known without measuring.
struct Known {
  plan::MeasuredPlacement measured;
  bool machine = false;
  bool times = false;
  bool network = false;
};

Known known_of(const PlacementArguments& arguments) {
  Known known;
  plan::MeasuredPlacement& m = known.measured;
  if (!arguments.machine.empty()) {
    m = plan::measured_placement_of_toml(read_text_file(arguments.machine), arguments.machine);
    known.machine = true;
    known.times = !m.layers.empty();
    known.network = m.network.bandwidth_bytes_per_s > 0;
    // One rank sends nothing.
    if (!known.network && arguments.bandwidth.empty() && arguments.world != 1)
      plan::network_of(m.machine);  // says so
  }
  if (!arguments.bandwidth.empty()) {
    m.network = {.bandwidth_bytes_per_s = parse_rate(arguments.bandwidth, "--bandwidth"),
                 .latency_s = m.network.latency_s,
                 .processor_s_per_byte = m.network.processor_s_per_byte};
    known.network = true;
  }
  if (!arguments.latency.empty()) {
    if (!known.network) {
      throw UsageError("--latency is of a network that is given: add --bandwidth, or --machine");
    }
    m.network.latency_s = parse_latency(arguments.latency, "--latency");
    m.network.exchange_latency_s = 0;
  }
  return known;
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string percent(double part) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part);
  return text;
}

Json row_of(const plan::StepForecast& f, const train::PlacementProblem& problem, bool chosen) {
  const plan::Placement& p = f.placement;
  Json row{{"kind", "placement"},
           {"placement", name_of(p, problem.ranks)},
           {"strategy", p.kind == plan::Parallelism::data     ? Json("sync")
                        : p.kind == plan::Parallelism::hybrid ? Json("hybrid")
                                                              : Json(nullptr)}};
  row.update(placement_fields(p, problem.ranks));
  const double images = static_cast<double>(problem.recipe.training.batch);
  row.update({{"step_s", f.step_s},
              {"images_per_s", images / f.step_s},
              {"compute_s", f.compute_s},
              {"exposed_communication_s", f.exposed_s},
              {"communication_s", f.communication_s},
              {"hidden_communication", f.hidden()},
              {"sent_bytes", f.sent_bytes},
              {"parameter_bytes", f.parameter_bytes},
              {"memory_bytes", f.memory_bytes},
              {"chosen", chosen}});
  return row;
}

// What the other rows are of.
Json plan_row(const train::PlacementProblem& problem, const plan::MeasuredPlacement& m,
              const std::string& measured_on) {
  Json row{{"kind", "plan"},
           {"model", problem.recipe.model.name},
           {"ranks", problem.ranks},
           {"samples_per_rank", problem.samples_per_rank},
           {"unit", problem.task->unit()},
           {"batch", problem.recipe.training.batch},
           {"precision", problem.recipe.precision},
           {"measured", measured_on},
           {"processor_share", m.machine.processor_share}};
  if (m.processor_period_s > 0) row["processor_period_s"] = m.processor_period_s;
  if (problem.ranks == 1) return row;
  row["bandwidth_bytes_per_s"] = m.network.bandwidth_bytes_per_s;
  row["latency_s"] = m.network.latency_s;
  if (m.network.exchange_bandwidth_bytes_per_s > 0) {
    row["exchange_bandwidth_bytes_per_s"] = m.network.exchange_bandwidth_bytes_per_s;
    row["exchange_latency_s"] = m.network.exchange_latency_s;
  }
  return row;
}

void print_table(const train::PlacementProblem& problem, const train::PlacementPlan& plan) {
  std::printf("  %-22s %10s %10s %10s %7s %11s %11s %11s\n", "placement", "step", "compute",
              "exposed", "hidden", "sent", "parameters", "memory");
  for (std::size_t i = 0; i < plan.forecasts.size(); ++i) {
    const plan::StepForecast& f = plan.forecasts[i];
    std::printf("%c %-22s %10s %10s %10s %7s %11s %11s %11s\n", i == plan.best ? '*' : ' ',
                name_of(f.placement, problem.ranks).c_str(), format_seconds(f.step_s).c_str(),
                format_seconds(f.compute_s).c_str(), format_seconds(f.exposed_s).c_str(),
                percent(f.hidden()).c_str(), bytes_text(f.sent_bytes).c_str(),
                bytes_text(f.parameter_bytes).c_str(), bytes_text(f.memory_bytes).c_str());
  }
  std::printf(
      "Of one step, on a rank that has most; sync has the whole network on each rank, model "
      "parallelism is not\namong what can be trained. * is the soonest%s.\n",
      problem.ranks > 1 ? "" : " there is");
}

void print_machine(const train::PlacementProblem& problem, const plan::MeasuredPlacement& m,
                   const std::string& measured_on) {
  std::printf("%s on %d rank%s, %lld %s each; %s\n", problem.recipe.model.name.c_str(),
              problem.ranks, problem.ranks == 1 ? "" : "s",
              static_cast<long long>(problem.samples_per_rank), problem.task->unit().c_str(),
              measured_on.c_str());
  if (problem.ranks == 1) return;
  const plan::Network& n = m.network;
  std::printf("sums at %s/s of a rank, %s a step", bytes_text(n.bandwidth_bytes_per_s).c_str(),
              format_seconds(n.latency_s).c_str());
  if (n.exchange_bandwidth_bytes_per_s > 0) {
    std::printf("; exchanges at %s/s, %s", bytes_text(n.exchange_bandwidth_bytes_per_s).c_str(),
                format_seconds(n.exchange_latency_s).c_str());
  }
  std::printf("; a rank has %s of its processor", percent(m.machine.processor_share).c_str());
  if (m.processor_period_s > 0)
    std::printf(" in each %s", format_seconds(m.processor_period_s).c_str());
  std::printf("\n");
}

// A network that was given in words, as a machine has it.
plan::Communication communication_of(const train::PlacementProblem& problem,
                                     const plan::Network& network) {
  plan::Communication c;
  c.kind = plan::CommunicationKind::ring;
  c.bandwidth_bytes_per_s = network.bandwidth_bytes_per_s;
  c.latency_s = network.latency_s;
  for (const plan::LayerCost& layer : train::training_cost(problem).layers) {
    for (const plan::GradientSize& gradient : layer.gradients) c.gradient_bytes += gradient.bytes;
  }
  return c;
}

void answer(const PlacementArguments& arguments, const train::PlacementProblem& problem,
            plan::MeasuredPlacement measured, const std::string& measured_on) {
  if (arguments.processor_share > 0) measured.machine.processor_share = arguments.processor_share;
  if (!arguments.bandwidth.empty() || !arguments.latency.empty())
    measured.machine.communication = communication_of(problem, measured.network);
  if (!arguments.write_machine.empty()) {
    check_own_file("--write-machine", arguments.write_machine, kMachineFile);
    write_file_atomically(arguments.write_machine, kMachineMark.data() + to_toml(measured));
  }
  const double memory =
      arguments.memory.empty() ? 0 : static_cast<double>(parse_bytes(arguments.memory));
  const train::PlacementPlan plan =
      train::plan_placement(problem, measured, arguments.variable_batch, memory);
  Rows rows(arguments.json);
  rows.add(plan_row(problem, measured, measured_on));
  for (std::size_t i = 0; i < plan.forecasts.size(); ++i)
    rows.add(row_of(plan.forecasts[i], problem, i == plan.best));
  if (rows.on_standard_output()) return;
  print_machine(problem, measured, measured_on);
  print_table(problem, plan);
}

// Times that were not given are measured by `world`, and so is the network that joins its ranks.
// What is given of a machine counts; what its processors do to send a byte is seldom.
plan::MeasuredPlacement complete(const comm::World& world, const train::PlacementProblem& problem,
                                 const Known& known, int repetitions) {
  if (known.times) return known.measured;
  plan::MeasuredPlacement measured = measure_placement(world, problem, repetitions);
  if (known.machine) {
    measured.machine.processor_share = known.measured.machine.processor_share;
    measured.processor_period_s = known.measured.processor_period_s;
  }
  if (known.network) {
    const double processor = measured.network.processor_s_per_byte;
    measured.network = known.measured.network;
    if (measured.network.processor_s_per_byte == 0)
      measured.network.processor_s_per_byte = processor;
    measured.machine.communication = known.measured.machine.communication;
  }
  return measured;
}

// As many as share this machine, since a rank alone would have more of its cores and memory. A
// network is among two at least.
int ranks_to_measure(const PlacementArguments& arguments, const Known& known,
                     std::int64_t threads) {
  if (arguments.ranks.ranks > 0 || arguments.world <= 1) return std::max(arguments.ranks.ranks, 1);
  const auto cores = static_cast<std::int64_t>(usable_cores().size());
  const std::int64_t ranks = cores / std::max<std::int64_t>(threads, 1);
  return static_cast<int>(std::clamp<std::int64_t>(ranks, known.network ? 1 : 2, arguments.world));
}

std::string measured_on(int ranks, int threads, int planned, bool network_given) {
  std::string text = "measured on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                     " x " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  if (network_given) text += ", the network as given";
  if (ranks < planned) {
    text += "\nOnly " + std::to_string(ranks) + " of the " + std::to_string(planned) +
            (ranks == 1 ? " ranks was measured: the others are taken to be like it"
                        : " ranks were measured: the others are taken to be like them");
  }
  return text;
}

void run_placement(PlacementArguments arguments) {
  const bool of_recipe = is_recipe_file(arguments.words.step.model);
  if (!of_recipe) model::check_model_name(arguments.words.step.model);
  const Known known = known_of(arguments);
  check_output_file("--write-machine", arguments.write_machine);
  train::Registry registry;
  add_made_up_images(registry);
  train::RecipeText text;
  if (of_recipe) {
    text = train::read_recipe_file(arguments.words.step.model);
    registry.load_plugins(train::plugins_of(text, arguments.words.step.overrides));
  }
  if (arguments.world == 0 && !is_a_rank())
    throw UsageError("for how many ranks? Add --world N, or run it under mpirun");
  const auto problem_of = [&](int ranks) {
    return placement_problem(arguments.words, of_recipe ? &text : nullptr, ranks, registry);
  };
  if (known.times && (known.network || arguments.world == 1) && !is_a_rank())
    return answer(arguments, problem_of(arguments.world), known.measured,
                  "times and network from " + arguments.machine);
  if (!is_a_rank()) {
    const auto problem = problem_of(arguments.world);  // one line here, not one from each rank
    arguments.ranks.ranks = ranks_to_measure(arguments, known, problem.recipe.threads);
  }
  become_ranks(arguments.ranks, 0);
  in_world(arguments.ranks, "plan placement", [&](comm::World& world) {
    const auto problem = problem_of(arguments.world > 0 ? arguments.world : world.size());
    const int threads = train::set_threads(world, static_cast<int>(problem.recipe.threads));
    const plan::MeasuredPlacement measured = [&] {
      try {
        return complete(world, problem, known, arguments.repetitions);
      } catch (const c10::Error& error) {
        throw UsageError(problem.recipe.model.name + " can't be measured with " +
                         std::to_string(problem.samples_per_rank) + " " + problem.task->unit() +
                         " on a rank: " + message_of(error));
      }
    }();
    if (world.rank() == 0) {
      answer(arguments, problem, measured,
             known.times ? "times from " + arguments.machine
                         : measured_on(world.size(), threads, problem.ranks, known.network));
    }
    return 0;
  });
}

}  // namespace

void add_plan_placement_command(CLI::App& plan) {
  auto arguments = std::make_shared<PlacementArguments>();
  PlacementArguments& a = *arguments;
  a.words.step.batch_per_rank = 16;
  CLI::App* command = plan.add_subcommand(
      "placement", "Where the layers of a network should be: data, model or hybrid parallelism");
  command
      ->add_option("network", a.words.step.model,
                   "A recipe's file, or a network: " + names_of_networks())
      ->type_name("RECIPE.toml|MODEL")
      ->required();
  command->add_option("--world", a.world, "Ranks to plan for; under mpirun as many as there are")
      ->type_name("N")
      ->check(positive_integer(kMostRanks));
  auto* const batch =
      command
          ->add_option("--batch-per-rank", a.words.step.batch_per_rank,
                       "Images per rank and step; with a recipe, its training.batch without")
          ->check(positive_integer())
          ->capture_default_str();
  command
      ->add_option("--machine", a.machine,
                   "Bandwidth, latency, share of a processor, and times of layers, if it has them, "
                   "instead of those here")
      ->type_name("FILE");
  command->add_option("--write-machine", a.write_machine, "What was measured, for --machine")
      ->type_name("FILE")
      ->check(writes_file(kMachineFile));
  command->add_option("--bandwidth", a.bandwidth,
                      "Of a rank's link, each way, as 1gbit or 100MB (a second)");
  command->add_option("--latency", a.latency, "Of a message, as 50us; none without it");
  command->add_option("--processor-share", a.processor_share, "What a rank has of its processor")
      ->check(CLI::Range(0.001, 1.0));
  command->add_flag("--variable-batch", a.variable_batch,
                    "hybrid: divided layers are updated after each pass");
  command->add_option("--memory", a.memory, "Most memory of a rank, as 4GiB")->type_name("SIZE");
  command->add_option("-n,--ranks", a.ranks.ranks, "Ranks that measure on this machine")
      ->check(positive_integer(kMostRanks));
  auto* const precision =
      command
          ->add_option("--precision", a.words.step.precision, "float32, or bfloat16 for autocast")
          ->check(CLI::IsMember({"float32", "bfloat16"}))
          ->capture_default_str();
  add_set_option(*command, a.words.step.overrides);
  command->add_option("--repetitions", a.repetitions, "Measured passes")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--json", a.json, "The table as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments, batch, precision] {
    arguments->words.batch_given = batch->count() > 0;
    arguments->words.precision_given = precision->count() > 0;
    run_placement(*arguments);
  });
}

}  // namespace convoy::cli
