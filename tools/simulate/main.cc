// convoy-simulate: Convoy's algorithms of allreduce on a simulated network (docs/simulation.md).
#include <cstdio>
#include <exception>

#include <smpi/smpi.h>

#include "cli/rows.h"
#include "cli/suggest.h"
#include "comm/collectives/allreduce/selection.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "options.h"

namespace convoy::simulate {
namespace {

class Table {
 public:
  Table(const Options& options, const Network& network)
      : options_(options), network_(network), rows_(options.json) {
    if (rows_.on_standard_output()) return;
    std::printf("allreduce(sum) of f32, %d ranks on a %s: %s; links of %s and %g us, seed %llu\n",
                network.ranks, name_of(network.topology), network.shape().c_str(),
                options.rate.c_str(), options.latency_us,
                static_cast<unsigned long long>(options.seed));
    std::printf("%10s  %-34s %7s %12s %8s %9s %8s\n", "size", "algorithm", "colors", "simulated",
                "to mpi", "of bound", "sums");
    std::fflush(stdout);
  }

  void add(const Result& result) {
    const Candidate& candidate = *result.candidate;
    const bool mpi = candidate.kind == Candidate::Kind::mpi;
    if (mpi) mpi_seconds_ = result.seconds;
    const int ranks = network_.ranks;
    const int colors = mpi ? 0 : result.choice.colors_among(ranks);
    // No allreduce sends less than this over the busiest host's link.
    const double bound =
        2.0 * static_cast<double>(result.bytes) * (ranks - 1) / ranks / network_.bytes_per_second;
    const double ratio = mpi_seconds_ / result.seconds;
    nlohmann::ordered_json row{{"algorithm", candidate.name}};
    if (!mpi) {
      if (candidate.kind == Candidate::Kind::algorithm)
        row["algorithm"] = comm::name_of(result.choice.algorithm);
      row["choice"] = comm::text_of(result.choice);
      row["segment_bytes"] = result.choice.pipeline.segment_bytes;
      row["in_flight"] = result.choice.pipeline.in_flight;
    }
    row["colors"] = colors;
    row["ranks"] = ranks;
    row["topology"] = name_of(network_.topology);
    row["shape"] = network_.shape();
    row["placement"] = options_.placement;
    row["seed"] = options_.seed;
    row["bytes"] = result.bytes;
    row["link_gbit_per_s"] = network_.bytes_per_second * 8e-9;
    row["link_latency_s"] = network_.latency_s;
    row["time_s"] = result.seconds;
    row["ratio_to_mpi"] = ratio;
    row["bound_s"] = bound;
    row["fraction_of_bound"] = bound / result.seconds;
    row["sums_checked"] = result.checked;
    rows_.add(row);
    if (rows_.on_standard_output()) return;
    std::string label = candidate.name;
    if (candidate.kind == Candidate::Kind::automatic) label += ": " + comm::text_of(result.choice);
    std::printf("%10s  %-34s %7d %12s %7.2fx %7.1f %% %8s\n", format_bytes(result.bytes).c_str(),
                label.c_str(), colors, format_seconds(result.seconds).c_str(), ratio,
                100 * bound / result.seconds, result.checked ? "right" : "-");
    std::fflush(stdout);
  }

 private:
  const Options& options_;
  const Network& network_;
  cli::Rows rows_;
  double mpi_seconds_ = 0;  // at this size
};

namespace s4u = simgrid::s4u;

// Max-min sharing of links without SimGrid's corrections for TCP over Gigabit Ethernet, no time but
// that of messages and additions, and MPI's collectives as Open MPI selects them.
constexpr const char* kSettings[] = {"network/model:CM02",
                                     "network/crosstraffic:no",
                                     "network/TCP-gamma:0",
                                     "smpi/simulate-computation:no",
                                     "smpi/test:0",
                                     "smpi/iprobe:0",
                                     "smpi/wtime:0",
                                     "smpi/coll-selector:ompi",
                                     "smpi/shared-malloc-blocksize:16777216",
                                     "contexts/stack-size:256"};

void configure(const std::vector<std::string>& more) {
  for (const char* setting : kSettings) s4u::Engine::set_config(setting);
  for (const std::string& option : more) {
    try {
      if (option.find(':') == option.npos || option.find_first_of(" \t\n") != option.npos)
        throw UsageError("it is not written as NAME:VALUE");
      s4u::Engine::set_config(option);
    } catch (const std::exception& error) {
      const std::string text = error.what();  // SimGrid adds a list of all names
      throw UsageError("--simgrid " + option + ": " + text.substr(0, text.find('\n')));
    }
  }
}

void run(const Options& options) {
  const Network network = network_of(options);
  const Plan plan = plan_of(options);
  char name[] = "convoy-simulate";
  char* argv[] = {name, nullptr};
  int argc = 1;
  xbt_log_control_set("xbt_cfg.thresh:warning");  // it tells of every setting
  xbt_log_control_set("smpi.thresh:error");
  smpi_init_options();  // which the engine then knows
  s4u::Engine engine(&argc, argv);
  configure(options.simgrid);
  Table table(options, network);
  simulate(network, plan, [&](const Result& result) { table.add(result); });
}

}  // namespace
}  // namespace convoy::simulate

int main(int argc, char** argv) {
  using namespace convoy;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  CLI::App app(
      "Convoy's algorithms of allreduce on a simulated network, against Open MPI's selection",
      "convoy-simulate");
  simulate::Options options;
  simulate::declare(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    simulate::run(options);
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s\n", cli::explain(app, error, arguments).c_str());
    return kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "convoy-simulate: %s\n", message_of(error).c_str());
    return exit_status(error);
  }
}
