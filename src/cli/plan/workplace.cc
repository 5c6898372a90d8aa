#include "cli/plan/workplace.h"

#include "convoy/base/system.h"
#include "train/logging/environment.h"

namespace convoy::cli {

void add_host_options(CLI::App& command, HostWords& words) {
  command
      .add_option("--hosts", words.hosts,
                  "Where updates are timed, instead of on this machine: node1,node2:4 (workers on "
                  "each, one unless it says)")
      ->type_name("LIST");
  command.add_option("--hostfile", words.hostfile, "The same from a file")->type_name("FILE");
}

Workplace Workplace::of(const HostWords& words, const std::vector<std::string>& gpus, int threads) {
  const std::vector<int> cores = usable_cores();
  return {.cores = cores,
          .places = places_of(cores, gpus, threads),
          .hosts = read_hosts(words.hosts, words.hostfile),
          .gpu = gpus.empty() ? "" : train::gpu_name(),
          .threads = threads};
}

int Workplace::most() const {
  return hosts.empty() ? static_cast<int>(places.size()) : total_slots(hosts);
}

Place Workplace::place(int workers) const {
  if (!hosts.empty()) return {.workers = workers, .hosts = first_slots(hosts, workers)};
  if (workers == 1) return places.front();
  Place place{.workers = workers};
  if (places.front().gpu.empty())
    place.cores.assign(cores.begin(), cores.begin() + workers * threads);
  return place;
}

const char* Workplace::unit() const {
  if (!hosts.empty()) return "host";
  return places.front().gpu.empty() ? "core" : "GPU";
}

std::string Workplace::name() const { return name(most()); }

std::string Workplace::name(int workers) const {
  if (!hosts.empty()) return "hosts " + format_hosts(first_slots(hosts, workers));
  const std::string processor = train::processor_name();
  std::string text = (processor.empty() ? "unknown processor" : processor) + ", " +
                     std::to_string(cores.size()) + (cores.size() == 1 ? " core" : " cores");
  if (places.front().gpu.empty()) return text;
  text += ", " + std::to_string(places.size()) + (places.size() == 1 ? " GPU" : " GPUs");
  return text + (gpu.empty() ? "" : " " + gpu);
}

bool Workplace::is(const std::string& other) const {
  const std::string own = name();
  return other.empty() || other == own || (!hosts.empty() && other.starts_with(own + ",")) ||
         was(other);
}

bool Workplace::was(const std::string& other) const {
  const std::string own = name();
  return hosts.empty() && other.size() < own.size() && same_workplace(own, other);
}

bool same_workplace(const std::string& one, const std::string& other) {
  if (one.size() < other.size()) return same_workplace(other, one);
  if (other.empty() || !one.starts_with(other)) return false;
  return one.size() == other.size() || one[other.size()] == ',' || one[other.size()] == ' ';
}

}  // namespace convoy::cli
