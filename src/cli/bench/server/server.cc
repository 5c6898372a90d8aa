#include "cli/bench/server/server.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/median.h"
#include "cli/bench/lists.h"
#include "cli/bench/server/measure.h"
#include "cli/bench/server/vectors.h"
#include "cli/checks.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct ServerBenchOptions {
  std::string sizes = "4KiB,1MiB,64MiB,256MiB";
  std::string clients = "1,4";
  std::string transport = "both";
  std::string durability = "none";
  std::string vectors;
  std::uint32_t shards = 1;
  int repetitions = 5;
  std::string folder;
  std::string json;
};

// A new folder, while this object lives.
class Folder {
 public:
  explicit Folder(const std::string& parent)
      : path_((fs::path(parent) / "convoy-bench-server-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw UsageError("--folder: can't make a folder in '" + parent + "'");
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// While this object lives a signal that would end the program interrupts what it waits for, so that
// it ends in order.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~Interruptible() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction interrupt_ = {}, terminate_ = {};
};

std::vector<Way> ways_of(const std::string& text) {
  if (text == "tcp") return {Way::tcp};
  if (text == "shared") return {Way::shared};
  return {Way::tcp, Way::shared};
}

std::vector<Safety> safeties_of(const std::string& text) {
  std::vector<Safety> all{Safety::none, Safety::replicated, Safety::synced};
  if (text == "all") return all;
  std::erase_if(all, [&](Safety one) { return text != name_of(one); });
  return all;
}

std::vector<int> clients_of(const std::string& text) {
  std::vector<int> clients;
  for (const std::string& part : split_list(text, "--clients")) {
    const std::string problem = positive_integer(256)(part);
    if (!problem.empty()) throw UsageError("--clients: " + problem);
    clients.push_back(std::stoi(part));
  }
  return clients;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// The rows of one job. The echo of each number of clients comes before the others of as many.
std::vector<ordered_json> rows_of(const ServerBench& bench,
                                  const std::vector<ServerFigures>& figures) {
  std::vector<ordered_json> rows;
  const ServerFigures* echo = nullptr;
  for (const ServerFigures& one : figures) {
    if (one.way == Way::echo) echo = &one;
    std::vector<double> ratios;  // of the same repetition
    for (std::size_t i = 0; i < one.rates.size(); ++i) {
      ratios.push_back(one.rates[i] / echo->rates[i]);
    }
    ordered_json row = {{"bytes", bench.bytes},
                        {"clients", one.clients},
                        {"transport", name_of(one.way)},
                        {"durability", name_of(bench.safety)},
                        {"shards", bench.shards},
                        {"repetitions", one.rates.size()},
                        {"bandwidth_gb_per_s", median(one.rates) / 1e9},
                        {"bandwidth_min_gb_per_s", quantile(one.rates, 0) / 1e9},
                        {"bandwidth_max_gb_per_s", quantile(one.rates, 1) / 1e9},
                        {"of_echo", median(ratios)},
                        {"of_echo_min", quantile(ratios, 0)},
                        {"of_echo_max", quantile(ratios, 1)},
                        {"exchange_p50_s", quantile(one.exchanges, 0.5)},
                        {"exchange_p99_s", quantile(one.exchanges, 0.99)}};
    if (!one.pushes.empty()) {
      row["push_p50_s"] = quantile(one.pushes, 0.5);
      row["push_p99_s"] = quantile(one.pushes, 0.99);
      row["fetch_p50_s"] = quantile(one.fetches, 0.5);
      row["fetch_p99_s"] = quantile(one.fetches, 0.99);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print(const ordered_json& row, bool& headed) {
  if (!headed) {
    std::printf("%-10s %7s  %-10s %-9s %9s %17s %8s %15s %9s %9s %9s %9s\n", "bytes", "clients",
                "durability", "transport", "GB/s", "(least to most)", "of echo", "(least to most)",
                "p50", "p99", "push", "fetch");
    headed = true;
  }
  const auto number = [&](const char* key) { return row.at(key).get<double>(); };
  const auto time = [&](const char* key) {
    return row.contains(key) ? format_seconds(number(key)) : std::string("-");
  };
  std::printf("%-10s %7d  %-10s %-9s %9.3f %8.3f %8.3f %7.2fx %6.2fx %6.2fx %9s %9s %9s %9s\n",
              format_bytes(row.at("bytes").get<std::uint64_t>()).c_str(),
              row.at("clients").get<int>(), row.at("durability").get<std::string>().c_str(),
              row.at("transport").get<std::string>().c_str(), number("bandwidth_gb_per_s"),
              number("bandwidth_min_gb_per_s"), number("bandwidth_max_gb_per_s"), number("of_echo"),
              number("of_echo_min"), number("of_echo_max"), time("exchange_p50_s").c_str(),
              time("exchange_p99_s").c_str(), time("push_p50_s").c_str(),
              time("fetch_p50_s").c_str());
  std::fflush(stdout);
}

// What vectors of one size and one job were measured; the memory's own comes first.
std::vector<ordered_json> rows_of(const ServerBench& bench, const std::string& element,
                                  const std::vector<VectorFigures>& figures) {
  std::vector<ordered_json> rows;
  for (const VectorFigures& one : figures) {
    std::vector<double> rates, ratios;
    for (std::size_t i = 0; i < one.times.size(); ++i) {
      rates.push_back(one.moved / one.times[i]);
      ratios.push_back(rates.back() / (figures[0].moved / figures[0].times[i]));
    }
    rows.push_back({{"bytes", bench.bytes},
                    {"operation", one.operation},
                    {"element", element},
                    {"durability", name_of(bench.safety)},
                    {"shards", bench.shards},
                    {"repetitions", one.times.size()},
                    {"bandwidth_gb_per_s", median(rates) / 1e9},
                    {"bandwidth_min_gb_per_s", quantile(rates, 0) / 1e9},
                    {"bandwidth_max_gb_per_s", quantile(rates, 1) / 1e9},
                    {"of_memory", median(ratios)},
                    {"of_memory_min", quantile(ratios, 0)},
                    {"of_memory_max", quantile(ratios, 1)},
                    {"operation_p50_s", quantile(one.times, 0.5)}});
  }
  return rows;
}

void print_vectors(const ordered_json& row, bool& headed) {
  if (!headed) {
    std::printf("%-10s %-9s %-7s  %-10s %9s %17s %9s %15s %9s\n", "bytes", "operation", "element",
                "durability", "GB/s", "(least to most)", "of memory", "(least to most)", "p50");
    headed = true;
  }
  const auto number = [&](const char* key) { return row.at(key).get<double>(); };
  std::printf("%-10s %-9s %-7s  %-10s %9.3f %8.3f %8.3f %8.2fx %6.2fx %6.2fx %9s\n",
              format_bytes(row.at("bytes").get<std::uint64_t>()).c_str(),
              row.at("operation").get<std::string>().c_str(),
              row.at("element").get<std::string>().c_str(),
              row.at("durability").get<std::string>().c_str(), number("bandwidth_gb_per_s"),
              number("bandwidth_min_gb_per_s"), number("bandwidth_max_gb_per_s"),
              number("of_memory"), number("of_memory_min"), number("of_memory_max"),
              format_seconds(number("operation_p50_s")).c_str());
  std::fflush(stdout);
}

std::vector<ordered_json> measured(const ServerBench& bench, const std::string& vectors) {
  if (vectors.empty()) return rows_of(bench, measure_server(bench));
  const auto element = vectors == "f64" ? server::Element::f64 : server::Element::f32;
  return rows_of(bench, vectors, measure_vectors(bench, element));
}

void run_server(const ServerBenchOptions& options) {
  ServerBench bench;
  bench.clients = clients_of(options.clients);
  bench.ways = ways_of(options.transport);
  bench.shards = options.shards;
  bench.repetitions = options.repetitions;
  const std::vector<std::size_t> sizes = parse_sizes(options.sizes);
  for (const std::size_t size : sizes) {
    const std::size_t each = options.vectors == "f64" ? sizeof(double) : sizeof(float);
    if (size < each || size % each != 0)
      throw UsageError("--sizes: " + std::to_string(size) + " bytes are no " +
                       (each == sizeof(double) ? "float64" : "float32") + " values");
  }
  Rows rows(options.json);
  const Interruptible interruptible;
  bool headed = false;
  for (const std::size_t size : sizes) {
    for (const Safety safety : safeties_of(options.durability)) {
      // For each job, so that logs of one aren't there with those of the next.
      const Folder folder(options.folder.empty() ? fs::temp_directory_path().string()
                                                 : options.folder);
      bench.bytes = size;
      bench.safety = safety;
      bench.folder = folder.path();
      // In a process of its own: this one stays without threads, and can start others.
      Child measuring = Child::talker([&](const Child::Say& say) {
        for (const ordered_json& row : measured(bench, options.vectors)) say(row.dump());
      });
      std::string line;
      bool any = false;
      while (measuring.next(line)) {
        const auto row = ordered_json::parse(line);
        rows.add(row);
        if (!rows.on_standard_output()) {
          options.vectors.empty() ? print(row, headed) : print_vectors(row, headed);
        }
        any = true;
      }
      if (!any) measuring.ready();  // throws: it ended without a word
    }
  }
}

}  // namespace

void add_server_command(CLI::App& bench) {
  const auto options = std::make_shared<ServerBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "server",
      "Pushes to a parameter server and fetches from it, against gRPC's echo of the same bytes");
  command->add_option("--sizes", options->sizes, "Bytes of the parameters: 4KiB,1MiB or 1..256MiB")
      ->capture_default_str();
  command->add_option("--clients", options->clients, "At once")->capture_default_str();
  command->add_option("--transport", options->transport, "tcp, shared (memory) or both")
      ->check(CLI::IsMember({"tcp", "shared", "both"}))
      ->capture_default_str();
  command
      ->add_option("--durability", options->durability,
                   "none (no backup, no log), replicated, synced, or all three")
      ->check(CLI::IsMember({"none", "replicated", "synced", "all"}))
      ->capture_default_str();
  command
      ->add_option("--vectors", options->vectors,
                   "Instead of that: a batch optimizer's algebra on shards, with vectors of f32 or "
                   "f64 elements, against axpy in this process's memory")
      ->check(CLI::IsMember({"f32", "f64"}));
  command->add_option("--shards", options->shards, "Each on a server of its own")
      ->check(positive_integer(64))
      ->capture_default_str();
  command->add_option("--repetitions", options->repetitions, "Alternating repetitions")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--folder", options->folder,
                      "Where servers have their logs, in a folder that is removed: the disk "
                      "counts; the system's for temporary files when left out");
  command
      ->add_option("--json", options->json,
                   "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_server(*options); });
}

}  // namespace convoy::cli
