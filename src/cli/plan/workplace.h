// Where a plan times updates: on this machine, or on hosts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/launch/hosts.h"
#include "cli/plan/place.h"

namespace convoy::cli {

struct HostWords {
  std::string hosts, hostfile;
};

// Adds --hosts and --hostfile.
void add_host_options(CLI::App& command, HostWords& words);

struct Workplace {
  std::vector<int> cores;        // of this machine
  std::vector<Place> places;     // of one worker each (places_of)
  std::vector<HostSlots> hosts;  // not empty: the workers are there

  // This machine with so many GPUs, or the hosts. Throws UsageError as read_hosts() does.
  static Workplace of(const HostWords& words, const std::vector<std::string>& gpus);

  // How many workers there is room for: one on each core, or GPU, or for each slot of a host, which
  // has one unless it says otherwise.
  int most() const;
  // For so many workers, at most most(). Here each has a core of its own, unless there are GPUs.
  Place place(int workers) const;
  // "core", "GPU" or "host", whatever each worker has one of.
  const char* unit() const;
  // By which times of different workplaces are kept apart: "AMD EPYC, 2 cores", "hosts h0:1,h1:2".
  std::string name() const;
};

}  // namespace convoy::cli
