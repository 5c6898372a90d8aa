#include "cli/bench/ablation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/median.h"
#include "cli/bench/ablation_row.h"
#include "cli/bench/peer_script.h"
#include "cli/bench/row_process.h"
#include "cli/checks.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/model/factory.h"

namespace convoy::cli {
namespace {

struct AblationBenchOptions {
  AblationRow row;
  int repetitions = 5;
  int steps = 4;
  int warmup = 2;
  bool alone = false;
  std::string python;
  std::string peer;
  std::string preload;
  std::string json;
};

struct Row {
  std::string name;
  std::vector<std::string> command;
  RowEnvironment environment;
  std::unique_ptr<RowProcess> process;
  std::vector<double> images_per_s;  // by repetition
  std::vector<double> losses;        // by step, over all repetitions
};

std::vector<std::string> shared_arguments(const AblationRow& row) {
  return {"--model",      row.model,
          "--batch",      std::to_string(row.batch),
          "--threads",    std::to_string(row.threads),
          "--image-size", std::to_string(row.image_size)};
}

Row own_row(const AblationBenchOptions& options, std::string name, const std::string& switches) {
  Row row;
  row.name = std::move(name);
  row.command = {own_program().string(), "bench", "ablation"};
  const auto arguments = shared_arguments(options.row);
  row.command.insert(row.command.end(), arguments.begin(), arguments.end());
  row.command.push_back("--serve-row=" + switches);
  row.environment = {{"OMP_NUM_THREADS", std::to_string(options.row.threads)}};
  return row;
}

Row python_row(const AblationBenchOptions& options, std::string name, bool channels_last) {
  Row row;
  row.name = std::move(name);
  row.command = {options.python, find_peer("torch_step.py", options.peer)};
  const auto arguments = shared_arguments(options.row);
  row.command.insert(row.command.end(), arguments.begin(), arguments.end());
  if (channels_last) row.command.push_back("--channels-last");
  row.environment = {{"OMP_NUM_THREADS", std::to_string(options.row.threads)}};
  return row;
}

// The switches of a row as letters: c(hannels-last), a(llocator), f(used).
std::vector<Row> make_rows(const AblationBenchOptions& options) {
  std::vector<Row> rows;
  rows.push_back(own_row(options, "plain", "-"));
  rows.push_back(own_row(options, "channels_last", "c"));
  rows.push_back(own_row(options, "channels_last+allocator", "ca"));
  rows.push_back(own_row(options, "channels_last+allocator+fused", "caf"));
  if (options.alone) {
    rows.push_back(own_row(options, "allocator", "a"));
    rows.push_back(own_row(options, "fused", "f"));
  }
  if (!options.preload.empty()) {
    rows.push_back(own_row(options, "channels_last+preload+fused", "cf"));
    rows.back().environment.emplace_back("LD_PRELOAD", options.preload);
  }
  if (!options.python.empty()) {
    rows.push_back(python_row(options, "python", false));
    rows.push_back(python_row(options, "python+channels_last", true));
  }
  return rows;
}

void measure(const AblationBenchOptions& options, std::vector<Row>& rows) {
  const auto ask = [](Row& row, int steps) {
    const RowAnswer answer = row.process->run(steps);
    row.losses.insert(row.losses.end(), answer.losses.begin(), answer.losses.end());
    return answer.seconds;
  };
  for (auto& row : rows) {
    std::fprintf(stderr, "ablation: starting %s\n", row.name.c_str());
    row.process = std::make_unique<RowProcess>(row.name, row.command, row.environment);
    ask(row, options.warmup);
  }
  const double images = static_cast<double>(options.row.batch) * options.steps;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    std::fprintf(stderr, "ablation: repetition %d of %d\n", repetition + 1, options.repetitions);
    for (auto& row : rows) row.images_per_s.push_back(images / ask(row, options.steps));
  }
}

// Of each repetition by itself: what slows the machine down for a while slows both.
double ratio_to(const Row& plain, const Row& row) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.images_per_s.size(); ++i) {
    ratios.push_back(row.images_per_s[i] / plain.images_per_s[i]);
  }
  return median(ratios);
}

double largest_loss_difference(const Row& plain, const Row& row) {
  double largest = 0;
  for (std::size_t i = 0; i < row.losses.size(); ++i) {
    largest =
        std::max(largest, std::abs(row.losses[i] - plain.losses[i]) / std::abs(plain.losses[i]));
  }
  return largest;
}

void report(const AblationBenchOptions& options, const std::vector<Row>& rows, Rows& out) {
  if (!out.on_standard_output()) {
    std::printf("%s, batch %lld, %d threads, float32, %d repetitions of %d steps\n",
                options.row.model.c_str(), static_cast<long long>(options.row.batch),
                options.row.threads, options.repetitions, options.steps);
    std::printf("%-30s %9s %7s %9s %11s %10s %11s\n", "row", "images/s", "spread", "to plain",
                "first loss", "last loss", "difference");
  }
  for (const auto& row : rows) {
    const auto [least, most] =
        std::minmax_element(row.images_per_s.begin(), row.images_per_s.end());
    const double rate = median(row.images_per_s);
    const double spread = (*most - *least) / rate;
    const double ratio = ratio_to(rows.front(), row);
    const double difference = largest_loss_difference(rows.front(), row);
    out.add({{"model", options.row.model},
             {"row", row.name},
             {"batch", options.row.batch},
             {"threads", options.row.threads},
             {"precision", "float32"},
             {"repetitions", options.repetitions},
             {"images_per_s", rate},
             {"spread", spread},
             {"ratio_to_plain", ratio},
             {"first_loss", row.losses.front()},
             {"last_loss", row.losses.back()},
             {"max_relative_loss_difference", difference}});
    if (out.on_standard_output()) continue;
    std::printf("%-30s %9.2f %6.1f%% %8.2fx %11.5f %10.5f %11.1e\n", row.name.c_str(), rate,
                100 * spread, ratio, row.losses.front(), row.losses.back(), difference);
  }
}

void run_ablation(const AblationBenchOptions& options) {
  const auto names = model::model_names();
  if (std::find(names.begin(), names.end(), options.row.model) == names.end()) {
    model::make_model(options.row.model);  // throws, naming the nearest
  }
  const std::string& model = options.row.model;
  if (!options.python.empty() && (!model.starts_with("resnet") || model == "resnet20")) {
    throw UsageError("--python compares with torchvision, which has no '" + model +
                     "'; leave --python out or take a resnet of torchvision's");
  }
  Rows out(options.json);
  auto rows = make_rows(options);
  measure(options, rows);
  report(options, rows, out);
}

}  // namespace

void add_ablation_command(CLI::App& bench) {
  auto options = std::make_shared<AblationBenchOptions>();
  auto switches = std::make_shared<std::string>();
  CLI::App* command = bench.add_subcommand(
      "ablation", "What channels-last, the allocator and the fused update bring on one rank");
  AblationRow& row = options->row;
  command->add_option("--model", row.model, "Network, by name")->capture_default_str();
  command->add_option("--batch", row.batch, "Images per step")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--image-size", row.image_size, "Height and width in pixels; 0: the network's")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--threads", row.threads, "Threads of each row")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--repetitions", options->repetitions, "Times each row is measured, in turn")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Training steps per measurement")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--warmup", options->warmup, "Steps before the first measurement")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_flag("--alone", options->alone, "Measure allocator and fused update alone, too");
  command->add_option(
      "--preload", options->preload,
      "Also measure this malloc library in the allocator's place (libtcmalloc_minimal.so.4)");
  command->add_option("--python", options->python,
                      "A Python with torch and torchvision to measure beside");
  command->add_option("--peer", options->peer,
                      "The script that Python runs; default: torch_step.py");
  command
      ->add_option("--json", options->json, "Write one JSON object per row ('-': standard output)")
      ->check(writes_file(kTableFile));
  // How the command starts each of its rows; empty name of a group hides it from the help.
  command->add_option("--serve-row", *switches)->group("");
  command->callback([options, switches] {
    if (switches->empty()) return run_ablation(*options);
    const auto has = [&](char letter) { return switches->find(letter) != std::string::npos; };
    options->row.channels_last = has('c');
    options->row.allocator = has('a');
    options->row.fused = has('f');
    serve_ablation_row(options->row);
  });
}

}  // namespace convoy::cli
