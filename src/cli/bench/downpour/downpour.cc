#include "cli/bench/downpour/downpour.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/downpour/folder.h"
#include "cli/bench/downpour/open.h"
#include "cli/bench/downpour/page.h"
#include "cli/bench/downpour/projection.h"
#include "cli/bench/downpour/table.h"
#include "cli/bench/downpour/training_run.h"
#include "cli/bench/lists.h"
#include "cli/checks.h"
#include "cli/launch/hosts.h"
#include "cli/launch/mpirun.h"
#include "cli/launch/report.h"
#include "cli/output_file.h"
#include "cli/rows.h"
#include "cli/training/set_option.h"
#include "cli/training/signals.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/export.h"
#include "train/report/figures.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kMostSeeds = 1000;
constexpr int kMostProjected = 1'000'000;

// Of ranks: the first hosts, with an even share each.
std::string hosts_of_ranks(const std::string& list, int ranks) {
  std::vector<HostSlots> hosts = parse_hosts(list);
  if (hosts.size() > static_cast<std::size_t>(ranks)) hosts.resize(static_cast<std::size_t>(ranks));
  complete_slots(hosts, ranks);
  return format_hosts(hosts);
}

std::vector<int> replicas_to_project(const std::string& list) {
  std::vector<int> numbers;
  if (list.empty()) return numbers;
  for (const std::string& word : split_list(list, "--project")) {
    const std::string problem = positive_integer(kMostProjected)(word);
    if (!problem.empty()) throw UsageError("--project: " + problem);
    numbers.push_back(std::stoi(word));
  }
  return numbers;
}

class Command {
 public:
  explicit Command(const ComparisonWords& words)
      : words_(words),
        rows_(words.json),
        out_(rows_.on_standard_output() ? stderr : stdout),
        comparison_(open_comparison(words)),
        folder_(comparison_.folder),
        wanted_(to_train(comparison_, folder_, words.overwrite)),
        cores_(static_cast<int>(usable_cores().size())) {
    runs_.level = words.level;
  }

  int run() {
    for (const std::string& note : comparison_.notes)
      std::fprintf(stderr, "comparison: %s\n", note.c_str());
    const bool draws = !find_program("gnuplot").empty();
    if (!draws)
      std::fprintf(stderr,
                   "comparison: there will be no report.html: it needs gnuplot (package "
                   "gnuplot-nox)\n");
    if (comparison_.warm && !warm_up(*comparison_.warm)) return stopped();
    int failed = 0;
    for (const Arm& arm : comparison_.arms) {
      ComparedRun run{&arm, {}, {}};
      if (!finish(arm, run)) return stopped();
      const std::string state = run.row["state"];
      if (state != "done" && state != "target" && state != "diverged") ++failed;
      rows_.add(run.row);
      runs_.runs.push_back(std::move(run));
    }
    if (!rows_.on_standard_output()) print_comparison(runs_, stdout);
    if (words_.link_gbit > 0) {
      projection_ = project(runs_, {words_.link_gbit, replicas_to_project(words_.project)});
      for (const Projected& row : projection_.rows) rows_.add(row_of(row));
      if (!rows_.on_standard_output()) print_projection(projection_, stdout);
    }
    if (draws) write_page();
    if (failed > 0) {
      throw Failure(std::to_string(failed) + " of " + std::to_string(comparison_.arms.size()) +
                    " runs failed; the same command trains them again, and keeps the others");
    }
    return 0;
  }

 private:
  bool is_wanted(const Arm& arm) const {
    return std::find(wanted_.begin(), wanted_.end(), &arm) != wanted_.end();
  }

  int stopped() const {
    std::fprintf(stderr, "comparison: stopped; the same command goes on\n");
    return kExitRequeue;
  }

  std::string recipe_of(const Arm& arm) const {
    return folder_.file("recipes/" + arm.name + ".toml");
  }

  std::vector<std::string> words_of(const Arm& arm) const {
    std::vector<std::string> words{"train", recipe_of(arm)};
    // What an interrupted run has left there.
    if (fs::exists(folder_.file(arm.name))) words.emplace_back("--overwrite");
    const std::string& hosts = comparison_.hosts;
    if (has_servers(arm.method)) {
      if (!hosts.empty()) words.insert(words.end(), {"--hosts", hosts});
      if (!words_.certificates.empty()) words.insert(words.end(), {"--certs", words_.certificates});
    } else if (arm.processes > 1 || !hosts.empty()) {
      words.insert(words.end(), {"-n", std::to_string(arm.processes)});
      if (!hosts.empty())
        words.insert(words.end(), {"--hosts", hosts_of_ranks(hosts, arm.processes)});
    }
    return words;
  }

  // Where the run never began, what was there before it stays: run folder, row and recipe.
  RunEnd train(const Arm& arm) {
    const std::string recipe = recipe_of(arm), log = folder_.file("logs/" + arm.name + ".txt");
    std::optional<Json> row;
    if (const Json* before = folder_.row(arm.name)) row = *before;
    std::optional<std::string> text;
    if (fs::exists(recipe)) text = read_text_file(recipe);
    folder_.forget(arm.name);
    write_file_atomically(recipe, train::print_recipe(arm.recipe, false));
    const auto began = fs::file_time_type::clock::now();
    const TrainingEnd ended = run_training(words_of(arm), log);
    RunEnd end;
    const std::string metrics = folder_.file(arm.name) + "/metrics.jsonl";
    end.began = fs::exists(metrics) && fs::last_write_time(metrics) >= began;
    if (!end.began && row) folder_.put(*row);
    if (!end.began && text) write_file_atomically(recipe, *text);
    end.hosts = comparison_.hosts;
    end.wall_s = ended.wall_s;
    const std::vector<HostSlots> hosts = read_hosts(comparison_.hosts, "");
    const bool here = std::all_of(hosts.begin(), hosts.end(),
                                  [](const HostSlots& host) { return is_this_host(host.name); });
    if (here) end.cpu_s = ended.cpu_s;
    if (ended.stopped) {
      end.state = "stopped";
    } else if (ended.good()) {
      end.state = train::ending_of(train::read_run(folder_.file(arm.name)));
    } else {
      end.state = ended.diverged() ? "diverged" : "failed";
      if (!ended.diverged()) end.complaint = ended.complaint() + " (" + log + ")";
    }
    return end;
  }

  // False: told to stop.
  bool warm_up(const Arm& arm) {
    if (is_wanted(arm)) {
      std::fprintf(stderr, "comparison: the common warm start\n");
      const RunEnd end = train(arm);
      if (end.began) {
        // Everything that began with the one before, whichever methods are compared now.
        folder_.forget_all();
        fs::remove(warm_weights(folder_.path()));
      }
      if (end.state == "stopped") return false;
      if (end.state != "done")
        throw Failure("the warm start " + (end.complaint.empty() ? end.state : end.complaint) +
                      "; what it said is in " + folder_.file("logs/" + arm.name + ".txt"));
      export_warm_start(arm);
      folder_.put(row_of(arm, end));  // finished, with its weights
    } else if (!fs::exists(warm_weights(folder_.path()))) {
      export_warm_start(arm);
    }
    const train::RunRecord record = train::read_run(folder_.file(arm.name));
    if (record.best.empty()) return true;
    const train::EvaluationRecord& last = record.evaluations.back();
    runs_.start = train::value_of(last, record.best);
    const double of_training = train::value_of(last, name_of_training(record));
    if (std::isfinite(of_training)) runs_.start_of_training = of_training;
    return true;
  }

  void export_warm_start(const Arm& arm) const {
    train::export_model(train::checkpoint_in(folder_.file(arm.name), train::Which::newest),
                        warm_weights(folder_.path()), true);
  }

  bool finish(const Arm& arm, ComparedRun& run) {
    const std::string title = full_title(arm, all_arms());
    const std::string place =
        std::to_string(runs_.runs.size() + 1) + " of " + std::to_string(comparison_.arms.size());
    RunEnd end;
    if (is_wanted(arm)) {
      std::fprintf(stderr, "comparison: run %s, %s: %s\n", place.c_str(), arm.name.c_str(),
                   title.c_str());
      end = train(arm);
      if (end.state == "stopped") return false;
    } else {
      end = end_of(*folder_.row(arm.name));
    }
    if (end.began && fs::exists(folder_.file(arm.name) + "/metrics.jsonl")) {
      run.record = train::read_run(folder_.file(arm.name));
      run.row = row_of(arm, run.record, end, words_.level, cores_);
    } else {
      run.row = row_of(arm, end);
    }
    if (end.began || folder_.row(arm.name) == nullptr) folder_.put(run.row);
    say(arm, run, end, place);
    return true;
  }

  void say(const Arm& arm, const ComparedRun& run, const RunEnd& end,
           const std::string& place) const {
    std::string text = end.state;
    const double best = number_in(run.row, "best"), time = number_in(run.row, "training_s");
    const train::MetricInfo* metric = run.record.metric(run.record.best);
    if (metric != nullptr && std::isfinite(best))
      text += ", best " + metric->title + " " + train::metric_text(*metric, best);
    if (std::isfinite(time)) text += ", " + format_seconds(time) + " of training";
    if (!is_wanted(arm)) text += " (from the folder)";
    if (!end.complaint.empty()) text += ": " + end.complaint;
    std::fprintf(stderr, "comparison: run %s, %s: %s\n", place.c_str(), arm.name.c_str(),
                 text.c_str());
  }

  std::vector<const Arm*> all_arms() const {
    std::vector<const Arm*> all;
    for (const Arm& arm : comparison_.arms) all.push_back(&arm);
    return all;
  }

  void write_page() const {
    const std::string page = make_comparison_page(comparison_, runs_, projection_);
    const std::string file = folder_.file("report.html");
    write_file_atomically(file, page);
    std::fprintf(out_, "report  %s (%s)\n", file.c_str(), format_bytes(page.size()).c_str());
  }

  const ComparisonWords& words_;
  Rows rows_;
  std::FILE* out_;
  Comparison comparison_;
  ComparisonFolder folder_;
  std::vector<const Arm*> wanted_;
  int cores_;
  ComparedRuns runs_;
  Projection projection_;
};

void check(const ComparisonWords& words) {
  if (words.link_gbit > 0 && !words.level)
    throw UsageError("--link: the projection is of the time to a level: name it with --level");
  if (words.link_gbit == 0 && !words.project.empty())
    throw UsageError("--project: say with --link how fast the machines' links are, in Gbit/s");
  replicas_to_project(words.project);
  for (const HostSlots& host : read_hosts(words.hosts, "")) {
    if (host.slots != 0)
      throw UsageError("--hosts: name hosts alone; how many workers there are --replicas says");
  }
  if (!words.certificates.empty() && !fs::is_directory(words.certificates))
    throw UsageError("--certs: there is no folder " + words.certificates);
  if (words.json != "-") check_output_file("--json", words.json);
}

int run(const ComparisonWords& words) {
  check(words);
  Command command(words);
  catch_stop_signals();
  return command.run();
}

void add_options(CLI::App& command, ComparisonWords& w) {
  command.add_option("recipe", w.recipe, "The recipe, with strategy = \"downpour\"")
      ->type_name("RECIPE")
      ->required();
  command
      .add_option(
          "--methods", w.methods,
          "What to compare: sgd (one plain worker), fixed (Downpour, plain SGD at a fixed "
          "rate), adagrad (Downpour with Adagrad on the shards), sandblaster (a method on the "
          "whole batch), sync (synchronous SGD on "
          "as many workers as replicas, which divide training.batch), gpu (sgd on a GPU; "
          "left out where there is none)")
      ->type_name("LIST")
      ->capture_default_str();
  command
      .add_option(
          "--replicas", w.replicas,
          "Numbers of replicas, each tried with fixed, adagrad, sandblaster and sync: 1,2,4 "
          "(the recipe's)")
      ->type_name("LIST");
  command
      .add_option("--exchange", w.exchange,
                  "Mini-batches between exchanges with the servers, tried with fixed and adagrad: "
                  "N for n_fetch = n_push = N, or n_fetch:n_push; 1,5,5:20 (the recipe's)")
      ->type_name("LIST");
  command
      .add_option("--lr", w.rates,
                  "Learning rates: sgd=0.05,fixed=0.05,adagrad=0.01 (the recipe's for methods with "
                  "its rule; for gpu that of sgd)")
      ->type_name("METHOD=RATE,...");
  command.add_option("--seeds", w.seeds, "Runs of each setting, from the recipe's seed on")
      ->check(positive_integer(kMostSeeds))
      ->capture_default_str();
  command
      .add_option("--warm-steps", w.warm_steps,
                  "All runs begin with the weights of one plain worker after so many mini-batches, "
                  "which are made once; 0: each as the recipe says")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--iterations", w.iterations,
                  "Of sandblaster, at most; each takes the whole training data once or more often")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--level", w.level,
                  "What is to be reached of the metric that evaluations are judged by: 0.97")
      ->check(finite_number())
      ->type_name("VALUE");
  command
      .add_option("--link", w.link_gbit,
                  "Also say how long it would take with a machine for each replica and shard, with "
                  "links of so many Gbit/s: computed from what was measured, with what is assumed")
      ->check(positive_number())
      ->type_name("GBIT");
  command
      .add_option("--project", w.project,
                  "With --link: numbers of replicas of sandblaster beside those that are measured: "
                  "16,64,256")
      ->type_name("LIST");
  add_set_option(command, w.overrides);
  command
      .add_option("--hosts", w.hosts,
                  "Hosts of the replicas, servers and ranks: node1,node2 (this one)")
      ->type_name("LIST");
  command.add_option("--certs", w.certificates, "On several hosts: certificates of `convoy certs`")
      ->type_name("DIR");
  command
      .add_option("--folder", w.folder,
                  "Where run folders, rows and report.html go (runs/<name>-comparison). Started "
                  "again with the same folder, what is finished there is not trained again")
      ->type_name("DIR")
      ->check(writes_folder(kComparisonFolder));
  command.add_flag("--overwrite", w.overwrite,
                   "Train again what is in the folder with other settings");
  command.add_option("--json", w.json, "One JSON object for each run ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
}

}  // namespace

void add_downpour_command(CLI::App& bench, Outcome& outcome) {
  const auto words = std::make_shared<ComparisonWords>();
  CLI::App* command = bench.add_subcommand(
      "downpour",
      "SGD, Downpour SGD with a fixed rate and with Adagrad, Sandblaster, and synchronous SGD on "
      "one "
      "recipe: curves and times to a level, as in Dean et al. 2012, figures 4 and 5 "
      "(docs/downpour.md)");
  add_options(*command, *words);
  command->callback([words, &outcome] { outcome.exit_status = run(*words); });
}

}  // namespace convoy::cli
