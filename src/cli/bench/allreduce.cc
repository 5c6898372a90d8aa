#include "cli/bench/allreduce.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "base/median.h"
#include "cli/bench/allreduce_measure.h"
#include "cli/bench/allreduce_tune.h"
#include "cli/bench/lists.h"
#include "cli/checks.h"
#include "cli/join.h"
#include "cli/launch/again.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "comm/collectives/allreduce/selection.h"
#include "comm/internals.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"

namespace convoy::cli {
namespace {

constexpr comm::Type kTypes[] = {comm::Type::f32,  comm::Type::f64, comm::Type::f16,
                                 comm::Type::bf16, comm::Type::i32, comm::Type::i64,
                                 comm::Type::u8};

struct AllreduceBenchOptions {
  int ranks = 0;
  std::string sizes = "4,1KiB,32KiB,256KiB,1MiB,4MiB,16MiB,64MiB";
  std::string type = "f32";
  std::string algorithms =
      "auto,shared,hierarchical,recursive-doubling,ring,ring-rsag,multicolor,multicolor "
      "k=ranks,mpi";
  bool algorithms_given = false, sizes_given = false;
  int repetitions = 7;
  double seconds = 0.02;
  std::string goodput;
  bool measure_limit = false;
  std::string memory = "registered";
  std::string tune;
  bool show_selection = false;
  bool reproducible = false;
  std::string json;
};

comm::Type parse_type(const std::string& text) {
  for (comm::Type type : kTypes) {
    if (text == comm::name_of(type)) return type;
  }
  throw UsageError("--type: '" + text + "' is none of f32, f64, f16, bf16, i32, i64, u8");
}

std::vector<Candidate> parse_candidates(const AllreduceBenchOptions& options, comm::Type type) {
  std::vector<Candidate> candidates;
  std::set<std::string> seen;
  for (const std::string& name : split_list(options.algorithms, "--algorithms")) {
    if (!seen.insert(name).second) throw UsageError("--algorithms: '" + name + "' is there twice");
    if (name == "mpi") {
      if (comm::MpiAllreduce::supports(type))
        candidates.push_back({Candidate::Kind::mpi, name});
      else if (options.algorithms_given)
        throw UsageError("--algorithms: MPI has no sum of " + options.type + "; leave 'mpi' out");
    } else if (name == "auto") {
      candidates.push_back({Candidate::Kind::automatic, name});
    } else {
      candidates.push_back({Candidate::Kind::algorithm, name,
                            comm::parse_allreduce(name, "--algorithms (with 'auto' besides)")});
    }
  }
  return candidates;
}

// The usual list has algorithms that need several hosts, and some that need a single one.
void leave_out_unusable(const comm::World& world, bool asked_for,
                        std::vector<Candidate>& candidates) {
  const auto abilities = comm::CommunicatorInternals::abilities(world.communicator());
  const auto unusable = [&](const Candidate& candidate) {
    return candidate.kind == Candidate::Kind::algorithm &&
           !abilities.allow(candidate.choice.algorithm);
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), unusable);
  if (found == candidates.end()) return;
  if (asked_for) {
    throw UsageError("--algorithms: '" + found->name + "' can't be used here: " +
                     (found->choice.algorithm == comm::AllreduceAlgorithm::shared
                          ? "it needs all ranks on one host"
                          : "it needs several hosts with as many ranks on each, more than one"));
  }
  std::erase_if(candidates, unusable);
}

int hosts_of(const comm::World& world) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.insert(world.host(rank));
  return static_cast<int>(hosts.size());
}

void show_selection(const comm::World& world, const std::vector<std::size_t>& sizes, Rows& out) {
  const comm::Communicator& all = world.communicator();
  const auto& selection = comm::CommunicatorInternals::engine(all)->selection();
  const int hosts = hosts_of(world);
  if (!out.on_standard_output()) {
    std::printf("The first of these rules that fits is taken:\n");
    for (const comm::AllreduceRule& rule : selection.rules())
      std::printf("  %s\n", rule.text().c_str());
    std::printf("With %d rank%s on %d host%s:\n", world.size(), world.size() == 1 ? "" : "s", hosts,
                hosts == 1 ? "" : "s");
  }
  for (std::size_t bytes : sizes) {
    const comm::AllreduceChoice choice = comm::CommunicatorInternals::choose(all, bytes);
    out.add({{"bytes", bytes},
             {"ranks", world.size()},
             {"hosts", hosts},
             {"algorithm", comm::name_of(choice.algorithm)},
             {"colors", choice.colors_among(world.size())},
             {"segment_bytes", choice.pipeline.segment_bytes},
             {"in_flight", choice.pipeline.in_flight}});
    if (!out.on_standard_output())
      std::printf("  %10s  %s\n", format_bytes(bytes).c_str(), comm::text_of(choice).c_str());
  }
}

// What every row of one run shares.
struct Report {
  const AllreduceBenchOptions& options;
  const AllreduceMeasure& measure;
  int ranks = 1;
  int hosts = 1;
  bool reproducible = false;  // Convoy's; MPI's own is not
  double goodput = 0;         // of a link, bytes per second; 0: not known
  double stream = 0;          // of memory, read and written, per rank; 0: not known
  Rows& out;

  // No allreduce sends less than 2 S (p-1)/p from some rank; on one host none reads and writes less
  // than S on average.
  double fraction_of_limit(double bytes, double seconds) const {
    if (goodput > 0) return bytes / goodput * 2 * (ranks - 1) / ranks / seconds;
    return 2 * bytes / stream / seconds;
  }

  void header() const {
    if (out.on_standard_output()) return;
    std::printf(
        "allreduce(sum%s) of %s in %s memory, %d ranks on %d host%s, %d alternating repetitions\n",
        reproducible ? ", reproducible" : "", options.type.c_str(), options.memory.c_str(), ranks,
        hosts, hosts == 1 ? "" : "s", options.repetitions);
    if (stream > 0)
      std::printf("each rank reads and writes %.3f GB/s while the others do the same\n",
                  stream / 1e9);
    if (goodput > 0)
      std::printf("each rank sends and receives at most %.3f GB/s at the same time\n",
                  goodput / 1e9);
    std::printf("%10s  %-34s %10s %8s %9s %8s %9s\n", "size", "algorithm", "median", "spread",
                "bus GB/s", "to mpi", "of limit");
  }

  void row(const Candidate& candidate, std::size_t bytes, const AllreduceTimes& times,
           const AllreduceTimes* mpi) const {
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    const double middle = median(times);
    const double rate = static_cast<double>(bytes) / middle / 1e9;
    const double bus = rate * 2 * (ranks - 1) / ranks;
    nlohmann::ordered_json row{{"algorithm", candidate.name}};
    std::string label = candidate.name;
    if (candidate.kind == Candidate::Kind::mpi) {
      row["colors"] = 0;
    } else {
      const comm::AllreduceChoice choice = measure.choice(candidate, bytes);
      row["algorithm"] = candidate.kind == Candidate::Kind::automatic
                             ? candidate.name
                             : std::string(comm::name_of(choice.algorithm));
      row["choice"] = comm::text_of(choice);
      row["colors"] = choice.colors_among(ranks);
      row["segment_bytes"] = choice.pipeline.segment_bytes;
      row["in_flight"] = choice.pipeline.in_flight;
      if (candidate.kind == Candidate::Kind::automatic)
        label += ": " + comm::text_of(choice);
      else if (choice.colors == comm::AllreduceChoice::kChosenColors && choice.colors_among(ranks))
        label += " (k=" + std::to_string(choice.colors_among(ranks)) + ")";
    }
    row["ranks"] = ranks;
    row["hosts"] = hosts;
    row["type"] = options.type;
    row["memory"] = candidate.kind == Candidate::Kind::mpi ? "ordinary" : options.memory;
    row["reproducible"] = reproducible && candidate.kind != Candidate::Kind::mpi;
    row["bytes"] = bytes;
    row["repetitions"] = times.size();
    row["median_s"] = middle;
    row["spread_s"] = *most - *least;
    row["bandwidth_gb_per_s"] = rate;
    row["bus_bandwidth_gb_per_s"] = bus;
    std::string to_mpi = "-", of_limit = "-";
    char text[32];
    if (mpi != nullptr) {
      // Of each repetition by itself: what slows the machine down for a while slows both.
      std::vector<double> ratios;
      for (std::size_t i = 0; i < times.size(); ++i) ratios.push_back((*mpi)[i] / times[i]);
      row["ratio_to_mpi"] = median(ratios);
      std::snprintf(text, sizeof text, "%.2fx", median(ratios));
      to_mpi = text;
    }
    if (goodput > 0 || stream > 0) {
      const double fraction = fraction_of_limit(static_cast<double>(bytes), middle);
      if (goodput > 0) row["goodput_gb_per_s"] = goodput / 1e9;
      if (stream > 0) row["stream_gb_per_s"] = stream / 1e9;
      row["fraction_of_limit"] = fraction;
      std::snprintf(text, sizeof text, "%.1f %%", 100 * fraction);
      of_limit = text;
    }
    out.add(row);
    if (out.on_standard_output()) return;
    std::printf("%10s  %-34s %10s %7.0f%% %9.3f %8s %9s\n", format_bytes(bytes).c_str(),
                label.c_str(), format_seconds(middle).c_str(), 100 * (*most - *least) / middle, bus,
                to_mpi.c_str(), of_limit.c_str());
    std::fflush(stdout);
  }
};

void run_allreduce(const AllreduceBenchOptions& options) {
  // Mistakes are found here once, not by each rank.
  const std::vector<std::size_t> sizes = parse_sizes(options.sizes);
  AllreduceSettings settings;
  settings.type = parse_type(options.type);
  settings.candidates = parse_candidates(options, settings.type);
  settings.repetitions = options.repetitions;
  settings.seconds = options.seconds;
  settings.registered = options.memory == "registered";
  double goodput = 0;
  if (!options.goodput.empty()) {
    goodput = static_cast<double>(parse_bytes(options.goodput));
    if (goodput <= 0) throw UsageError("--goodput must be above 0 bytes per second");
  }
  const auto nothing_to_reduce = [] {
    throw UsageError("one rank has nothing to reduce: add -n 2, or start this under mpirun");
  };
  if (!is_a_rank() && options.ranks > 1) run_again_as_ranks(options.ranks);
  if (!is_a_rank() && !options.show_selection) nothing_to_reduce();
  comm::WorldOptions world_options;
  world_options.reproducible = options.reproducible;
  comm::World world = join_ranks(options.ranks, world_options);
  const bool speaks = world.rank() == 0;
  Rows out(speaks ? options.json : "");
  if (options.show_selection) {
    if (speaks) show_selection(world, sizes, out);
    world.close();
    return;
  }
  if (world.size() == 1) nothing_to_reduce();
  if (!options.tune.empty()) {
    std::vector<std::size_t> ascending =
        parse_sizes(options.sizes_given ? options.sizes : "4..64MiB");
    std::sort(ascending.begin(), ascending.end());
    tune_allreduce(world, settings, ascending, options.tune);
    world.close();
    return;
  }
  leave_out_unusable(world, options.algorithms_given, settings.candidates);
  const int hosts = hosts_of(world);
  double stream = 0;
  if (options.measure_limit && hosts == 1) stream = measure_stream(world, options.repetitions);
  if (options.measure_limit && hosts > 1) goodput = measure_goodput(world, options.repetitions);
  {
    AllreduceMeasure measure(world, settings);
    const Report report{options, measure, world.size(), hosts, world.options().reproducible,
                        goodput, stream,  out};
    if (speaks) report.header();
    for (std::size_t size : sizes) {
      const std::size_t count = std::max<std::size_t>(1, size / comm::size_of(settings.type));
      const auto times = measure.run(count);
      if (!speaks) continue;
      const AllreduceTimes* mpi = nullptr;
      for (std::size_t i = 0; i < times.size(); ++i) {
        if (settings.candidates[i].kind == Candidate::Kind::mpi) mpi = &times[i];
      }
      for (std::size_t i = 0; i < times.size(); ++i)
        report.row(settings.candidates[i], count * comm::size_of(settings.type), times[i], mpi);
    }
  }
  world.close();
}

}  // namespace

void add_allreduce_command(CLI::App& bench) {
  const auto options = std::make_shared<AllreduceBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("allreduce", "Algorithms of allreduce, against MPI's own in turn");
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start on this machine; leave out under mpirun")
      ->check(positive_integer(kMostRanks));
  command
      ->add_option_function<std::string>(
          "--sizes",
          [options](const std::string& text) {
            options->sizes = text;
            options->sizes_given = true;
          },
          "Sizes of the buffer; 4..256MiB goes in steps of 4x")
      ->default_str(options->sizes);
  command->add_option("--type", options->type, "f32, f64, f16, bf16, i32, i64 or u8")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--algorithms",
          [options](const std::string& text) {
            options->algorithms = text;
            options->algorithms_given = true;
          },
          "List of auto (the selection), mpi (the library's own), and algorithms with parameters, "
          "as in 'ring-rsag segment=1MiB,multicolor k=4,mpi'")
      ->default_str(options->algorithms);
  command->add_option("--repetitions", options->repetitions, "Times that each is measured, in turn")
      ->check(CLI::Range(5, 1000))
      ->capture_default_str();
  command
      ->add_option("--seconds", options->seconds,
                   "Least time of one measurement; small buffers are reduced many times")
      ->check(positive_number())
      ->capture_default_str();
  CLI::Option* given = command->add_option(
      "--goodput", options->goodput,
      "Bytes per second that a rank can send while it receives as many, for the limit (25MB)");
  command
      ->add_flag("--measure-limit", options->measure_limit,
                 "Measure what limits it: between hosts, every rank sends to the next and receives "
                 "from the previous; on one host, every rank streams through memory")
      ->excludes(given);
  command
      ->add_option("--memory", options->memory,
                   "Of Convoy's algorithms: registered (as gradients are) or ordinary")
      ->check(CLI::IsMember({"registered", "ordinary"}))
      ->capture_default_str();
  command->add_flag("--reproducible", options->reproducible,
                    "Sums with the same bits for every algorithm and order of ranks; MPI's own "
                    "stays as it is. CONVOY_REPRODUCIBLE=1 does the same");
  command
      ->add_option("--tune", options->tune,
                   "Measure the algorithms with several parameters at --sizes (4..64MiB), and "
                   "write the rules for this number of ranks and hosts to this file; "
                   "CONVOY_ALLREDUCE=@FILE uses them")
      ->check(writes_file(kRulesFile));
  command->add_flag("--show-selection", options->show_selection,
                    "Print the rules that choose algorithms, and what they choose for --sizes");
  command
      ->add_option("--json", options->json,
                   "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_allreduce(*options); });
}

}  // namespace convoy::cli
