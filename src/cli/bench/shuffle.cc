#include "cli/bench/shuffle.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/median.h"
#include "cli/bench/allreduce_measure.h"
#include "cli/bench/made_up_records.h"
#include "cli/checks.h"
#include "cli/data/bar.h"
#include "cli/join.h"
#include "cli/launch/again.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/packed.h"
#include "convoy/data/store_source.h"

namespace convoy::cli {
namespace {

struct ShuffleBenchOptions {
  std::vector<std::string> files;
  int ranks = 0;
  std::uint64_t bytes_per_rank = std::uint64_t{64} << 20;
  std::uint64_t record_bytes = std::uint64_t{100} << 10;
  std::vector<int> groups = {1};
  std::uint64_t segment = data::StoreOptions{}.segment;
  int repetitions = 5;
  int threads = 1;
  std::string json;
};

// The records to shuffle. Throws UsageError: a file is none, or ranks can't form the groups.
std::shared_ptr<const data::LoadableDataset> open_records(const ShuffleBenchOptions& options,
                                                          int ranks) {
  std::shared_ptr<const data::LoadableDataset> source;
  if (options.files.empty()) {
    source = std::make_shared<MadeUpRecords>(
        options.bytes_per_rank * static_cast<std::uint64_t>(ranks), options.record_bytes);
  } else {
    source = std::make_shared<data::PackedFiles>(options.files);
  }
  for (const int groups : options.groups)
    data::store_need(*source, ranks, groups, options.segment);  // or throws
  return source;
}

// What one shuffle took on the slowest rank, and moved and needed.
struct Measured {
  double seconds = 0;
  double sent = 0;  // by a rank, on average
  double peak = 0;  // most of any rank, as the kernel counts; 0: it doesn't
  double part = 0;  // largest, before or after
};

double largest(const comm::World& world, double value, comm::ReduceOp op = comm::ReduceOp::max) {
  std::array<double, 1> values{value};
  world.communicator().allreduce(comm::buffer_of(values), op);
  return values[0];
}

Measured shuffle(const comm::World& world, data::Store& store, std::uint64_t generation) {
  const auto order = data::store_order(store.size(), 0, {generation, generation, {}});
  double part = static_cast<double>(store.held_bytes());
  const bool counted = forget_peak_memory();
  const double besides = static_cast<double>(resident_memory()) - part;
  world.communicator().barrier();
  const data::ShuffleReport report = store.arrange(order);
  const double peak = counted ? static_cast<double>(peak_memory()) - besides : 0;
  part = std::max(part, static_cast<double>(store.held_bytes()));
  Measured measured;
  measured.seconds = largest(world, report.seconds);
  measured.sent =
      largest(world, static_cast<double>(report.bytes), comm::ReduceOp::sum) / world.size();
  measured.peak = largest(world, peak);
  measured.part = largest(world, part);
  return measured;
}

class Benchmark {
 public:
  Benchmark(const comm::World& world, const ShuffleBenchOptions& options)
      : world_(world), options_(options), rows_(world.rank() == 0 ? options.json : "") {}

  void run() {
    const auto source = open_records(options_, world_.size());
    limit_ = measure_goodput(world_, options_.repetitions);
    header(*source);
    for (const int groups : options_.groups) measure(source, groups);
  }

 private:
  bool speaks() const { return world_.rank() == 0 && !rows_.on_standard_output(); }

  void header(const data::LoadableDataset& source) const {
    if (!speaks()) return;
    std::printf(
        "%zu records of %s together, %d ranks, segments of %s, %d shuffles\n"
        "each rank sends and receives at most %.3f GB/s at the same time\n"
        "%6s  %10s %10s %10s %8s %9s %9s %10s\n",
        source.size(), format_bytes(source.bytes({0, source.size()})).c_str(), world_.size(),
        format_bytes(options_.segment).c_str(), options_.repetitions, limit_ / 1e9, "groups",
        "part", "sent", "median", "spread", "GB/s", "of limit", "peak");
  }

  void measure(const std::shared_ptr<const data::LoadableDataset>& source, int groups) {
    Bar bar("load", "MB", !speaks());
    data::StoreOptions options;
    options.groups = groups;
    options.segment = options_.segment;
    options.threads = options_.threads;
    options.check = true;  // a benchmark of wrong results is worth nothing
    options.tell = [&bar](double done, double total) {
      bar.update(done / kMegabyte, total / kMegabyte);
    };
    data::CommPeers peers(world_.communicator());
    data::Store store(source, peers, options);
    bar.finish();
    shuffle(world_, store, 0);  // the first one only puts things in order
    std::vector<double> seconds;
    Measured all;
    for (int i = 1; i <= options_.repetitions; ++i) {
      const Measured one = shuffle(world_, store, static_cast<std::uint64_t>(i));
      seconds.push_back(one.seconds);
      all.sent += one.sent / options_.repetitions;
      all.peak = std::max(all.peak, one.peak);
      all.part = std::max(all.part, one.part);
    }
    if (world_.rank() == 0) row(groups, seconds, all);
  }

  void row(int groups, const std::vector<double>& seconds, const Measured& all) {
    const double middle = median(seconds);
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    const double goodput = middle > 0 ? all.sent / middle : 0;
    rows_.add({{"ranks", world_.size()},
               {"groups", groups},
               {"segment_bytes", options_.segment},
               {"part_bytes", all.part},
               {"sent_bytes", all.sent},
               {"repetitions", seconds.size()},
               {"median_s", middle},
               {"spread_s", *most - *least},
               {"goodput_gb_per_s", goodput / 1e9},
               {"limit_gb_per_s", limit_ / 1e9},
               {"fraction_of_limit", goodput / limit_},
               {"peak_bytes", all.peak > 0 ? nlohmann::ordered_json(all.peak) : nullptr}});
    if (!speaks()) return;
    const auto text = [](double bytes) {
      return bytes > 0 ? format_bytes(static_cast<std::uint64_t>(bytes)) : std::string("?");
    };
    if (all.sent == 0) {
      std::printf("%6d  %10s %10s: every rank holds everything\n", groups, text(all.part).c_str(),
                  "0 B");
      return;
    }
    std::printf("%6d  %10s %10s %10s %7.0f%% %9.3f %7.1f %% %10s\n", groups, text(all.part).c_str(),
                text(all.sent).c_str(), format_seconds(middle).c_str(),
                100 * (*most - *least) / middle, goodput / 1e9, 100 * goodput / limit_,
                text(all.peak).c_str());
    std::fflush(stdout);
  }

  const comm::World& world_;
  const ShuffleBenchOptions& options_;
  Rows rows_;
  double limit_ = 0;  // bytes per second
};

void run_shuffle(const ShuffleBenchOptions& options) {
  const auto nothing_to_shuffle = [] {
    throw UsageError("one rank has nothing to shuffle: add -n 2, or start this under mpirun");
  };
  if (!is_a_rank()) {
    if (options.ranks < 2) nothing_to_shuffle();
    // Mistakes are found here once, not by each rank.
    open_records(options, options.ranks);
    run_again_as_ranks(options.ranks);
  }
  comm::World world = join_ranks(options.ranks);
  if (world.size() == 1) nothing_to_shuffle();
  Benchmark(world, options).run();
  world.close();
}

void add_bytes(CLI::App& command, const char* name, std::uint64_t& value, const char* text) {
  command
      .add_option_function<std::string>(
          name,
          [name, &value](const std::string& given) {
            value = parse_bytes(given);
            if (value == 0) throw UsageError(std::string(name) + " has to be above 0 bytes");
          },
          text)
      ->default_str(format_bytes(value));
}

}  // namespace

void add_shuffle_command(CLI::App& bench) {
  const auto options = std::make_shared<ShuffleBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "shuffle",
      "Shuffles of data in memory among the ranks, against what links carry both ways at once");
  command->add_option("files", options->files, "Packed files; without any, made-up records")
      ->type_name("FILE.tar");
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start on this machine; leave out under mpirun")
      ->check(positive_integer(kMostRanks));
  add_bytes(*command, "--bytes-per-rank", options->bytes_per_rank,
            "Made-up records for each rank; every group holds those of all ranks");
  add_bytes(*command, "--record", options->record_bytes, "Mean size of made-up records");
  command
      ->add_option("--groups", options->groups,
                   "Groups of ranks that hold all records once each; a list measures each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive_integer())
      ->capture_default_str();
  add_bytes(*command, "--segment", options->segment,
            "What moves at once; two of them are the memory beside the records");
  command->add_option("--repetitions", options->repetitions, "Shuffles that are measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads of each rank that load")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--json", options->json,
                   "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_shuffle(*options); });
}

}  // namespace convoy::cli
